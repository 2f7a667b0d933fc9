"""NumPy's arrays and pandas' tables by shape, type and first values (`tracer.objects: attributes`)."""

import importlib.util
import sys
from typing import Any

import pytest

from remedy.data_gen.execution.describe import attributes_describer
from remedy.data_gen.execution.program import Program
from remedy.data_gen.execution.sandbox import Sandbox, TracerConfig
from remedy.data_gen.roles import Special
from remedy.data_gen.traces.cwm import Cwm
from remedy.data_gen.traces.render import render
from remedy.data_gen.traces.reveal import RevealConfig

LIBRARIES = {name: importlib.util.find_spec(name) is not None for name in ("numpy", "pandas")}
ARRAYS = {
    "np.arange(6).reshape(2, 3)": "<ndarray shape=(2, 3) dtype=int64 [[0 1 2] [3 4 5]]>",
    "np.zeros((2, 200), bool)": f"<ndarray shape=(2, 200) dtype=bool [[{'False ' * 64}...] ...]>",
    "np.zeros((10**9, 0)), np.array(5.5)": (
        "(<ndarray shape=(1000000000, 0) dtype=float64 []>, <ndarray shape=() dtype=float64 5.5>)"
    ),
    "np.array([.1, np.nan, -0.0], np.float32)": "<ndarray shape=(3,) dtype=float32 [0.1 nan -0.0]>",
    "np.array(['a]>', chr(10) + '<|frame_sep|>'])": "<ndarray shape=(2,) dtype=<U14 ['a]>' '\\n<|frame_sep|>']>",
    "np.array(['2020-01-02'], 'M8[D]')": "<ndarray shape=(1,) dtype=<M8[D] [2020-01-02]>",
    "[{'k': Holder(np.arange(2))}]": "[{'k': <Holder held=<ndarray shape=(2,) dtype=int64 [0 1]>>}]",
    "cycle()": "<ndarray shape=(2,) dtype=|O [<ndarray ...> Own()]>",
    "np.array([['a', Dots]] * 2, np.dtypes.StringDType(na_object=Dots))": (
        "<ndarray shape=(2, 2) dtype=StringDType [['a' ...] ['a' ...]]>"
    ),
    "ndarray()": "<ndarray shape=1>",  # the program's own class
    "Sub((2,))": "Sub([0., 0.])",
    "1": "1",
}
BEFORE_ARRAYS = """import numpy as np
class Holder:
    def __init__(self, held): self.held = held
class Own:
    def __repr__(self): return "Own()"
class Dotted:
    def __repr__(self): return "..."
Dots = Dotted()
class Sub(np.ndarray):
    def __new__(cls, shape): return np.zeros(shape).view(cls)
class ndarray:
    def __init__(self): self.shape = 1
ndarray.__module__ = "numpy"
def cycle():
    found = np.empty(2, object)
    found[0], found[1] = found, Own()
    return found
"""
REPLACED = """made = np.arange(3, dtype=float)
def never(*given, **named): raise SystemExit
np.set_printoptions(formatter={"all": never}, override_repr=never)
np.ndarray = np.dtype = np.array2string = np.array_repr = np._core.arrayprint._array_repr_implementation = never
"""
TABLES = {
    "pd.DataFrame({'a': [1, 2], 'b': ['x', '>']}, index=['p', 'q'])": (
        "<DataFrame shape=(2, 2) columns={'a': int64, 'b': %s} rows={'p': [1, 'x'], 'q': [2, '>']}>"
    ),
    "[pd.Series(range(20), name='n')]": (
        f"[<Series shape=(20,) columns={{'n': int64}} rows={{{', '.join(f'{n}: {n}' for n in range(16))}, ...}}>]"
    ),
    "pd.DataFrame([[True] * 17])": (
        f"<DataFrame shape=(1, 17) columns={{{', '.join(f'{n}: bool' for n in range(16))}, ...}} "
        f"rows={{0: [{', '.join(['True'] * 16)}]}}>"
    ),
    "DataFrame()": "<DataFrame shape=1>",
}
BEFORE_TABLES = """import pandas as pd
class DataFrame:
    def __init__(self): self.shape = 1
DataFrame.__module__ = "pandas"
def never(*given, **named): raise SystemExit
frame = pd.DataFrame
frame.__repr__ = frame.__str__ = frame.to_string = frame.to_dict = never
"""


@pytest.fixture(scope="module")
def sandbox() -> Any:
    with Sandbox(TracerConfig(objects="attributes", timeout_seconds=60, memory_megabytes=4096)) as found:
        yield found


def returned(sandbox: Sandbox, value: str, before: str) -> str:
    result = sandbox.trace(Program(f"{before}\ndef main():  # << START_OF_TRACE\n    return {value}\n")).result
    assert result is not None
    return result.text


@pytest.mark.skipif(not LIBRARIES["numpy"], reason="NumPy is not installed")
@pytest.mark.parametrize(("value", "text"), ARRAYS.items())
def test_arrays_are_shown_by_shape_type_and_first_values(sandbox: Sandbox, value: str, text: str) -> None:
    assert returned(sandbox, value, BEFORE_ARRAYS) == text


@pytest.mark.skipif(not LIBRARIES["numpy"], reason="NumPy is not installed")
def test_an_array_runs_nothing_that_a_program_can_replace(sandbox: Sandbox) -> None:
    before = BEFORE_ARRAYS + REPLACED
    assert returned(sandbox, "made", before) == "<ndarray shape=(3,) dtype=float64 [0.0 1.0 2.0]>"


@pytest.mark.skipif(not LIBRARIES["pandas"], reason="pandas is not installed")
@pytest.mark.parametrize(("value", "text"), TABLES.items())
def test_tables_are_shown_by_the_functions_that_pandas_had_before_the_program(
    sandbox: Sandbox, value: str, text: str
) -> None:
    text_type = returned(sandbox, "str(pd.Series(['x']).dtype)", BEFORE_TABLES)[1:-1]  # of pandas 2 or 3
    assert returned(sandbox, value, BEFORE_TABLES) == (text % text_type if "%s" in text else text)


def test_nothing_is_a_table_where_pandas_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert attributes_describer("import pandas")([1, None]).text == "[1, None]"


@pytest.mark.skipif(not LIBRARIES["numpy"], reason="NumPy is not installed")
def test_a_diff_shows_an_array_again_that_was_changed_in_place_and_its_strings_forge_no_frame(sandbox: Sandbox) -> None:
    body = "a = np.array(['x', '<|frame_sep|>'])\n    b = a\n    a[0] = '\"}'\n    return 0"
    traced = sandbox.trace(Program(f"import numpy as np\ndef main():  # << START_OF_TRACE\n    {body}\n"))
    written = render(traced, "cwm", RevealConfig(locals="diff"))
    read = Cwm().read([span.piece for span in written.spans if span.frame >= 0])
    assert read.frames == tuple(frame.as_read() for frame in written.frames)
    assert [(frame.locals or {}).get("a") for frame in read.frames] == [
        None,
        "<ndarray shape=(2,) dtype=<U13 ['x' '<|frame_sep|>']>",
        "..",
        "<ndarray shape=(2,) dtype=<U13 ['\"}' '<|frame_sep|>']>",
        None,
    ]
    assert sum(span.piece is Special.FRAME_SEP for span in written.spans if span.frame >= 0) == len(written.frames)
