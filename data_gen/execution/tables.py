"""Text of NumPy's arrays and pandas' tables: shape, types, first values.

Arrays are recognised by a type that no program can make, and read by C functions alone; tables by pandas' classes, imported
before the program runs, and read by pandas' own code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MOST_VALUES, MOST_LINES = 64, 16
"""Values of an array, and rows and columns of a table, that are written at most."""
HEAP_TYPE = 1 << 9
"""Flag of types made at run time, such as every `class`."""
_NUMBERS = (("i", "int"), ("u", "uint"), ("f", "float"), ("c", "complex"))

Text = Callable[[Any], str]


def array_writer(text: Text) -> tuple[Callable[[type], bool], Text]:
    """Make a test for arrays and their writer.

    An array is `<ndarray shape=(2, 3) dtype=int64 [[1 2 3] [4 5 6]]>`.
    """
    flags, heap = type.__dict__["__flags__"].__get__, HEAP_TYPE
    name, module = type.__dict__["__name__"].__get__, type.__dict__["__module__"].__get__
    get, length, string, first_items, numbers = object.__getattribute__, len, str, slice(0, MOST_VALUES), _NUMBERS

    def is_array(kind: type) -> bool:
        return not flags(kind) & heap and name(kind) == "ndarray" and module(kind) == "numpy"

    def array(value: Any) -> str:
        shape, dtype, first = get(value, "shape"), get(value, "dtype"), get(value, "flat")[first_items]
        code = dtype.kind
        # StringDType's own text has the repr of what stands for a missing string, with its address.
        dtype_text = "bool" if code == "b" else "StringDType" if code == "T" else dtype.str
        for letter, kind in numbers:
            if code == letter:
                dtype_text = f"{kind}{8 * dtype.itemsize}"
        # Numbers and dates as short as tells them apart; Python's own are longer.
        items = first.astype("U").tolist() if code in "fcMm" else [text(item) for item in first.tolist()]
        items.reverse()

        def block(axis: int) -> str:
            if axis == length(shape):
                value_text: str = items.pop()
                return value_text
            parts: list[str] = []
            for _ in range(shape[axis]):
                if not items:
                    parts.append("...")
                    break
                parts.append(block(axis + 1))
            return f"[{' '.join(parts)}]"

        return f"<ndarray shape={string(shape)} dtype={dtype_text} {block(0) if items else '[]'}>"

    return is_array, array


def table_writer(text: Text, code: str) -> tuple[Callable[[type], bool], Text]:
    """Make a test for tables and their writer.

    A table is `<DataFrame shape=(1, 2) columns={'a': int64, 'b': str} rows={0: [1, 'x']}>`. Without `pandas` in `code`
    there are none.
    """
    frame, series, shape_of, types_of, place_of, rows_of, framed, length_of = _pandas(code)
    exact_type, string, many, limit, label_of = type, str, list, MOST_LINES, type.__dict__["__name__"].__get__

    def is_table(kind: type) -> bool:
        return frame is not None and (kind is frame or kind is series)

    def table(value: Any) -> str:
        kind = exact_type(value)
        is_series = kind is series
        shape, whole = (length_of(value), framed(value)) if is_series else (shape_of(value), value)
        rows, columns = shape_of(whole)
        part = place_of(whole)[:limit, :limit]
        heads = [f"{text(head)}: {string(kind_text)}" for head, kind_text in zip(part.columns, types_of(part).tolist())]
        cells = [line[0] if is_series else many(line) for line in rows_of(part, index=False, name=None)]
        lines = [f"{text(label)}: {text(cell)}" for label, cell in zip(part.index, cells)]
        heads += ["..."] * (columns > limit)
        lines += ["..."] * (rows > limit)
        start = f"<{label_of(kind)} shape={string(shape)}"
        return f"{start} columns={{{', '.join(heads)}}} rows={{{', '.join(lines)}}}>"

    return is_table, table


def _pandas(code: str) -> tuple[Any, ...]:
    """Return pandas' classes and the functions that read them, or Nones."""
    if "pandas" in code:
        try:
            frame, series = (__import__("pandas").__dict__[name] for name in ("DataFrame", "Series"))
            properties = [getattr(frame, name).fget for name in ("shape", "dtypes", "iloc")]
            return frame, series, *properties, frame.itertuples, series.to_frame, series.shape.fget
        except Exception:  # it is not there, or is another
            pass
    return (None,) * 8
