"""Do outputs fail at strings, and is it because they are strings? First wrong values by type, against what true traces hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.published.collected import MODEL, Benchmark, Execution
from benchmarks.published.failures import per_token
from benchmarks.published.strata import Stratified, stratified
from benchmarks.published.tables import Table, per_cent, times
from benchmarks.published.truths import KINDS, LIMIT, Shown
from remedy.data_gen.execution.sandbox import TracerConfig
from remedy.data_gen.tasks.program_sources import Case
from remedy.eval.costs.split_patterns import pattern_rows
from remedy.models.tokenizer import TraceTokenizer

FIFTHS = 5


def base_rates(benchmarks: Sequence[Benchmark], new: bool) -> Table:
    """First wrong values by type, per 1,000 values and tokens of the type; `new`: of values that had to be worked out alone."""
    rows = []
    for one in benchmarks:
        executions = [e for e in one.executions if e.values()]
        wrongs = [_wrong(e, new) for e in executions]
        total = sum(wrong is not None for wrong in wrongs)
        shown = Counter(v.kind for e in executions for v in e.values() if v.new or not new)
        for kind in KINDS:
            held = [[v for v in e.values() if v.kind == kind and (v.new or not new)] for e in executions]
            errors = [int(wrong is not None and wrong.kind == kind) for wrong in wrongs]
            of = [max(len(values), error) for values, error in zip(held, errors)]
            tokens = [max(sum(v.tokens for v in values), error) for values, error in zip(held, errors)]
            clusters = [e.truth.cluster for e in executions]
            if not sum(of):
                continue
            rows.append(
                [
                    one.name,
                    kind,
                    f"{sum(errors)} ({sum(errors) / max(total, 1):.0%})",
                    f"{shown[kind] / shown.total():.0%}",
                ]
                + [times(per_token(errors, of, clusters), 1000, 1), times(per_token(errors, tokens, clusters), 1000, 2)]
            )
    header = ["benchmark", "type", "first wrong values", "of values", "per 1,000 values", "per 1,000 tokens"]
    return Table(f"First wrong values by type{', new values alone' if new else ''}", header, rows)


def _wrong(execution: Execution, new: bool) -> Shown | None:
    wrong = execution.judged.wrong if execution.judged is not None else None
    if wrong is None:
        return None
    found = execution.as_true(wrong)
    return found if found.new or not new else None


def within_strata(benchmarks: Sequence[Benchmark]) -> Table:
    """Mantel and Haenszel's difference of new values that are strings and others, within what else tells them apart."""
    comparisons: dict[str, tuple[Callable[[Shown], bool | None], Callable[[Shown], object]]] = {
        "string, against all others": (lambda v: v.kind == "string", lambda v: 0),
        "the same, of equal tokens": (lambda v: v.kind == "string", lambda v: _doublings(v.tokens)),
        "string, against a number of equal tokens": (_against_number, lambda v: _doublings(v.tokens)),
        "string, against another container of equal tokens": (_against_container, lambda v: _doublings(v.tokens)),
        "holds strings, against another container of equal tokens": (_holding, lambda v: _doublings(v.tokens)),
        "string of over 2 characters a token, against fewer, of equal characters": (
            _dense,
            lambda v: _doublings(len(v.value.text)),
        ),
    }
    rows = []
    for one in benchmarks:
        values = [(v, _is_wrong(e, v), e.truth.cluster) for e in one.executions for v in e.values() if v.new]
        for name, (exposed, stratum) in comparisons.items():
            kept = [(v, wrong, cluster) for v, wrong, cluster in values if exposed(v) is not None]
            found = stratified(
                [wrong for _, wrong, _ in kept],
                [bool(exposed(v)) for v, _, _ in kept],
                [str(stratum(v)) for v, _, _ in kept],
                [cluster for _, _, cluster in kept],
            )
            rows.append([one.name, name, *_cells(found)])
    return Table("New values: first errors within strata", _HEADER, rows)


_HEADER = ["benchmark", "comparison", "exposed", "others", "difference", "counts", "strata"]


def _cells(found: Stratified | None) -> list[object]:
    if found is None:
        return ["", "", "no stratum holds both", "", ""]
    difference = per_cent((found.difference, found.low, found.high), 2)
    return [f"{found.exposed:.2%}", f"{found.others:.2%}", difference, "{} / {}".format(*found.size), found.strata]


def _is_wrong(execution: Execution, value: Shown) -> bool:
    wrong = execution.judged.wrong if execution.judged is not None else None
    return wrong is not None and (wrong.frame, wrong.name) == (value.frame, value.name)


def _doublings(size: int) -> int:
    return max(size, 1).bit_length()


def _against_number(value: Shown) -> bool | None:
    return {"string": True, "number": False}.get(value.kind)


def _against_container(value: Shown) -> bool | None:
    return {"string": True, "other": False}.get(value.kind)


def _holding(value: Shown) -> bool | None:
    return {"holds strings": True, "other": False}.get(value.kind)


def _dense(value: Shown) -> bool | None:
    return len(value.value.text) / max(value.tokens, 1) > 2 if value.kind == "string" else None


def executions_within_strata(benchmarks: Sequence[Benchmark], cuts: dict[str, dict[str, list[bool]]]) -> Table:
    """Executions that work strings out against others, and those that use a cut pattern against others, within tokens of the true
    trace or the number of uses. `cuts`: by benchmark and execution, whether each use's pattern is cut."""
    rows = [row for one in benchmarks for row in _within(one, cuts[one.name])]
    return Table("Executions whose output is wrong, within strata", _HEADER, rows)


def _within(benchmark: Benchmark, cuts: dict[str, list[bool]]) -> Iterator[list[object]]:
    fits = [e for e in benchmark.executions if e.tokens is not None and e.tokens <= LIMIT]
    edges = np.quantile([e.tokens or 0 for e in fits], np.linspace(0, 1, FIFTHS + 1)[1:-1])

    def fifth(execution: Execution) -> int:
        return int(np.searchsorted(edges, execution.tokens or 0))

    def uses(execution: Execution) -> int:
        return min(len(cuts[execution.truth.case]), 4)

    def cut(execution: Execution) -> bool:
        return any(cuts[execution.truth.case])

    works = [e for e in fits if any(v.new for v in e.truth.shown)]
    searches = [e for e in fits if cuts.get(e.truth.case)]
    same = "the same, within"
    for name, group, exposed, stratum in (
        ("a new string or a container of them", works, _has_string, _one),
        (f"{same} fifths of the trace's tokens", works, _has_string, fifth),
        ("a cut pattern, of executions that search for one", searches, cut, _one),
        (f"{same} the number of uses", searches, cut, uses),
        (f"{same} the number of uses and fifths of tokens", searches, cut, lambda e: (uses(e), fifth(e))),
    ):
        yield [benchmark.name, name, *_cells(_compared(group, exposed, stratum))]


def _one(execution: Execution) -> int:
    return 0


def _has_string(execution: Execution) -> bool:
    return any(v.new and v.kind in ("string", "holds strings") for v in execution.truth.shown)


def _compared(
    executions: Sequence[Execution], exposed: Callable[[Execution], bool], stratum: Callable[[Execution], object]
) -> Stratified | None:
    return stratified(
        [e.outcome in MODEL for e in executions],
        [exposed(e) for e in executions],
        [str(stratum(e)) for e in executions],
        [e.truth.cluster for e in executions],
    )


def cut_uses(cases: Sequence[Case], tokenizer: TraceTokenizer) -> dict[str, list[bool]]:
    """By execution, whether the vocabulary cuts the pattern of each different use of a string operation."""
    found = {}
    for case in cases:
        rows = pattern_rows(case.program, TracerConfig(), {"": tokenizer})
        found[case.id] = [bool(row["discontinuous"]) for row in rows]
    return found
