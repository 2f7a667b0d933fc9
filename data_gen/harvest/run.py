"""Harvest of several packages into one file, resumable."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from remedy.data_gen.harvest.duplicates import ProgramIndex, canonical, functions
from remedy.data_gen.harvest.package import NOT_CALLED, Harvest, Options, harvest
from remedy.data_gen.harvest.sources import Package, find, interpreter, is_licensed
from remedy.data_gen.tasks.program_sources import BENCHMARKS, lines, read_cases
from remedy.files import write_text
from remedy.messages import shown
from remedy.settings import UserError

_QUIET = 10.0
"""Seconds between two lines of progress."""
_COLUMNS = ("functions", "called with literals", "self-contained", "kept", "programs", "frames")


def harvest_all(
    words: Sequence[str],
    out: Path,
    licences: Sequence[str],
    against: Sequence[str],
    options: Options,
    duplicates: Path | None,
    say: Callable[[str], None],
) -> None:
    """Harvest packages by name, and append each one's programs to `out` when done.

    A summary beside `out` holds the finished packages and the options.

    Raises:
        UserError: a package is missing, two have one name, or `out` is no such harvest's.
    """
    if out.is_dir():
        raise UserError(f"{out}: is a folder: name a file in it")
    python = interpreter(options.python)
    packages = dict[str, Package]()
    for package in (find(word, python) for word in words):
        if (same := packages.setdefault(package.name, package)) != package:
            raise UserError(
                f"{package.name}: is in {same.root} and in {package.root}: give each of them an --out of its own"
            )
    for source in against:
        _add_benchmark(options.benchmarks, source)
    settings = {"calls": options.calls, "seed": options.seed, "python": python.version}
    settings |= {"licences": sorted(licences), "against": sorted(against)}
    path = out.with_suffix(".summary.json")
    if not path.exists() and out.exists() and out.stat().st_size:
        raise UserError(f"{out}: is not a harvest's, since no {path.name} is beside it: give another --out")
    summary = _summary(path, settings)
    done: dict[str, Any] = summary["packages"]
    if not out.exists() and any(counts.get("frames") for counts in done.values()):
        raise UserError(f"{path}: tells of programs in a file that is not at {out}: remove it, or give another --out")
    known = _known_programs(out, done)
    _write(path, summary)
    say(_line("package", _COLUMNS) + "\n" + "|---" * (len(_COLUMNS) + 1) + "|")
    for name in sorted(packages):
        package = packages[name]
        if name not in done:
            if licences and not is_licensed(package.licence, licences):
                done[name] = {"licence": package.licence, "left out": "its licence"}
            else:
                done[name] = _harvested(package, out, options, known, duplicates, say)
            _write(path, summary)
        say(_row(name, done[name]))
    for line in _totals(list(done.values())):
        say(line)


def _harvested(
    package: Package,
    out: Path,
    options: Options,
    known: ProgramIndex,
    duplicates: Path | None,
    say: Callable[[str], None],
) -> dict[str, Any]:
    begin = time.monotonic()
    result = harvest(package, options, known, _seldom(say))
    for file, rows in ((out, result.rows), (duplicates, result.duplicates)):
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a", encoding="utf-8") as written:
                written.write("".join(f"{json.dumps(row)}\n" for row in rows))
    return _summary_of(package, result, round(time.monotonic() - begin, 1))


def _summary_of(package: Package, result: Harvest, seconds: float) -> dict[str, Any]:
    families = Counter(family for row in result.rows for family in row["families"])
    return {
        "version": package.version,
        "licence": package.licence,
        "functions": dict(result.functions),
        "calls": dict(result.calls),
        "runs": dict(result.jobs),
        "families": dict(families),
        "frames": sum(row["frames"] for row in result.rows),
        "seconds": seconds,
    }


def _summary(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    if not path.exists():
        return {"settings": settings, "packages": {}}
    try:
        summary: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        before, _ = dict(summary["settings"]), dict(summary["packages"])
    except (ValueError, LookupError, TypeError):
        raise UserError(f"{path}: is no summary of a harvest: remove it, or give another --out") from None
    if other := next((name for name in settings if settings[name] != before.get(name)), None):
        raise UserError(
            f"{path}: this harvest was begun with {other} {shown(before.get(other))}, not {shown(settings[other])}: "
            "give the same, or another --out"
        )
    return summary


def _write(path: Path, summary: dict[str, Any]) -> None:
    write_text(path, json.dumps(summary, indent=1, sort_keys=True) + "\n")


def _known_programs(out: Path, done: dict[str, Any]) -> ProgramIndex:
    known = ProgramIndex()
    if not out.exists():
        return known
    written = out.read_text(encoding="utf-8").splitlines()
    rows = {line: row for line in written if (row := _row_of(line)) and row.get("package") in done}
    if len(rows) < len(written):
        write_text(out, "".join(f"{line}\n" for line in rows))
    for code, label in {row["code"]: row["id"].rpartition("/")[0] for row in rows.values()}.items():
        known.add(label, canonical(_without_f(code)))
    return known


def _row_of(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
        return row if isinstance(row, dict) else {}
    except ValueError:  # cut off
        return {}


def _without_f(code: str) -> str:
    """Return a program without its last statement, which binds `f`."""
    body, _, last = code.rstrip("\n").rpartition("\n\n")
    return body if last.startswith(("f = ", "def f(*arguments, **named):")) else code


def _add_benchmark(known: ProgramIndex, source: str) -> None:
    if source in BENCHMARKS:
        codes = [(case.id, case.group) for case in read_cases(source, None)]
    else:
        codes = [(where, _code(where, row)) for where, row in lines(source)]
    for label, code in codes:
        try:
            for texts in functions(code):
                known.add(label, texts)
        except (SyntaxError, ValueError, RecursionError):
            continue  # no program can be like it


def _code(where: str, row: dict[str, Any]) -> str:
    code = row.get("code")
    if code is None and "prompt" in row and "canonical_solution" in row:
        code = f"{row['prompt']}{row['canonical_solution']}"
    if not isinstance(code, str):
        raise UserError(f"{where}: has neither `code` nor `prompt` and `canonical_solution`")
    return code


def _seldom(say: Callable[[str], None]) -> Callable[[str], None]:
    last = time.monotonic()

    def say_seldom(line: str) -> None:
        nonlocal last
        if time.monotonic() - last > _QUIET:
            last = time.monotonic()
            say(line)

    return say_seldom


def _figures(counts: dict[str, Any]) -> tuple[int, ...]:
    functions, calls = (Counter(counts.get(key, {})) for key in ("functions", "calls"))
    called = functions["all"] - sum(functions[reason] for reason in NOT_CALLED)
    closed = called - sum(count for reason, count in functions.items() if reason.startswith("not self-contained"))
    return functions["all"], called, closed, functions["kept"], calls["kept"], counts.get("frames", 0)


def _line(name: str, cells: Sequence[object]) -> str:
    return f"| {name} | " + " | ".join(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells) + " |"


def _row(name: str, counts: dict[str, Any]) -> str:
    if "left out" not in counts:
        return _line(name, _figures(counts))
    return _line(name, [f"left out: {counts['left out']} is {counts['licence']}", *[""] * (len(_COLUMNS) - 1)])


def _totals(everything: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield _line("all", [sum(column) for column in zip(*map(_figures, everything))])
    for key in ("functions", "calls", "families", "runs"):
        counts: Counter[str] = Counter()
        for package_counts in everything:
            counts.update(package_counts.get(key, {}))
        yield f"{key}: " + ", ".join(f"{name} {count:,}" for name, count in counts.most_common())
