"""Published failures: whose they are, what the token limit cut, and where and in what outputs first go wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from benchmarks.published.collected import (
    CUT_RIGHT,
    EMPTY,
    GROUPS,
    MODEL,
    OTHER_CALL,
    OUTCOMES,
    SAME_VALUE,
    UNTRACED,
    Benchmark,
    Execution,
    over,
)
from benchmarks.published.reports import summary
from benchmarks.published.tables import Interval, Table, per_cent, times
from remedy.eval.stats import Estimate, rate
from remedy.eval.stats.clusters import codes, design_effect

LIMITS = (8192, 32_768, 131_072)


def bookkeeping(benchmarks: Sequence[Benchmark]) -> Table:
    """Compare the reports' summaries with their rows."""
    rows: list[list[object]] = []
    for one in benchmarks:
        said = dict(summary(one.report))
        causes = sum(int(number) for label, number in said.items() if label.startswith("cause: "))
        failed = one.report.failed
        rows += [
            [one.name, "failures", said["Total Failures"], len(failed)],
            [one.name, "truncated + wrong", f"{said['Truncated']} + {said['Wrong Answer']}", _split(failed)],
            [one.name, "root causes, summed", causes, len({f.cause for f in failed})],
        ]
    return Table("Bookkeeping", ["benchmark", "what", "summary", "rows (of causes: labels)"], rows)


def _split(failed: Sequence[object]) -> str:
    truncated = sum(bool(getattr(one, "truncated", False)) for one in failed)
    return f"{truncated} + {len(failed) - truncated}"


def whose(benchmarks: Sequence[Benchmark]) -> Table:
    """The failures by what became of them."""
    counts = [one.outcomes() for one in benchmarks]
    rows: list[list[object]] = [[name, *(count[name] for count in counts)] for name in OUTCOMES]
    rows.append(["all", *(len(one.failed) for one in benchmarks)])
    return Table("What became of the failures", ["outcome", *(one.name for one in benchmarks)], rows)


def accuracies(benchmarks: Sequence[Benchmark]) -> Table:
    """Accuracy as published, and with ever more of the failures not taken for the model's."""
    readings = {
        "as the rows say": None,
        "right answers taken for right": [one for one in OUTCOMES if one not in (OTHER_CALL, SAME_VALUE)],
        "traces: nothing written is wrong, as far as was allowed": [*MODEL, EMPTY, UNTRACED],
        "the same, without those cut or not judged": None,
    }
    rows = []
    for name, wrong in readings.items():
        cells: list[object] = [name]
        for one in benchmarks:
            found = one.right(wrong)
            if name.endswith("not judged"):
                found = _judged(one)
            cells.append(f"{per_cent(found)}, n = {found.size}")
        rows.append(cells)
    return Table("Accuracy with its interval over problems", ["reading", *(one.name for one in benchmarks)], rows)


def _judged(benchmark: Benchmark) -> Estimate:
    left = [one for one in benchmark.executions if one.outcome not in (CUT_RIGHT, EMPTY, UNTRACED)]
    return rate([one.outcome not in MODEL for one in left], [one.truth.cluster for one in left])


def budget(benchmarks: Sequence[Benchmark]) -> Table:
    """True traces over limits, among what the reports call truncated, all failures, and all executions."""
    rows = []
    for one in benchmarks:
        failed = [execution for _, execution in one.failed]
        groups = {
            "called truncated": [execution for f, execution in one.failed if f.truncated],
            "failed": failed,
            "all": one.executions,
        }
        for name, group in groups.items():
            rows.append([one.name, name, len(group), *(len(list(over(group, limit))) for limit in LIMITS)])
    header = ["benchmark", "executions", "count", *(f"over {limit:,}" for limit in LIMITS)]
    return Table("Tokens of true traces (diff), that the model has to write", header, rows)


def truncated(benchmarks: Sequence[Benchmark]) -> Table:
    """List what the reports call truncated, and what else the limit cut, by outcome and the tokens of the true trace."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for one in benchmarks:
        for failed, execution in one.failed:
            if failed.truncated or execution.outcome == CUT_RIGHT:
                counts[one.name, execution.outcome, _size(execution)] += 1
    sizes = [*(f"up to {limit:,}" for limit in LIMITS), "more, or not traced whole"]
    keys = sorted({key[:2] for key in counts})
    rows = [[*key, *(counts[(*key, size)] for size in sizes)] for key in keys]
    return Table("Called truncated, by tokens of the true trace", ["benchmark", "outcome", *sizes], rows)


def _size(execution: Execution) -> str:
    fits = next((limit for limit in LIMITS if execution.tokens is not None and execution.tokens <= limit), None)
    return "more, or not traced whole" if fits is None else f"up to {fits:,}"


def roles(benchmarks: Sequence[Benchmark]) -> Table:
    """First errors by role, with the hazard per 1,000 true tokens of the role over all executions, and over the failed alone."""
    rows = []
    for one in benchmarks:
        erred = [execution for execution in one.executions if execution.erred]
        for name, group in GROUPS.items():
            labels = {role.label for role in group}
            counted = [_first(execution, labels) for execution in one.executions]
            everywhere = _hazard(one.executions, [execution.exposure(group) for execution in one.executions], counted)
            among = [execution for execution in one.executions if execution.judged is not None]
            alone = _hazard(among, [e.exposure(group) for e in among], [_first(e, labels) for e in among])
            share = rate([bool(_first(e, labels)) for e in erred], [e.truth.cluster for e in erred])
            cells = [one.name, name, f"{sum(counted)} of {len(erred)}", per_cent(share, 0)]
            rows.append([*cells, times(everywhere, 1000, 3), times(alone, 1000, 2)])
    header = ["benchmark", "role", "first errors", "share", "per 1,000 tokens, all executions", "failed alone"]
    return Table("First errors by role", header, rows)


def _first(execution: Execution, labels: set[str]) -> int:
    return int(execution.erred and execution.judged is not None and execution.judged.role in labels)


def _hazard(executions: Sequence[Execution], of: Sequence[int], errors: Sequence[int]) -> Interval:
    """First errors per token, each execution having one at most: the share of executions that have one, over problems, for the tokens
    that there are of each. The tokens are taken as given: they are the benchmark's."""
    return per_token(errors, of, [one.truth.cluster for one in executions])


def per_token(errors: Sequence[int], of: Sequence[int], clusters: Sequence[str]) -> Interval:
    """First errors per token (or value): estimate and ends of its interval. `errors`: 0 or 1 of each execution."""
    share = rate([bool(error) for error in errors], clusters)
    scale = len(errors) / max(sum(of), 1)
    return [scale * end for end in share[:3]]


def actions(benchmarks: Sequence[Benchmark]) -> Table:
    """First errors that are actions, by what the program says of them; and how many outputs come back to the truth's answer."""
    rows = []
    for one in benchmarks:
        kinds = Counter(
            e.judged.score["wrong_action"] or "not told"
            for e in one.executions
            if e.judged is not None and _first(e, {"event", "action"})
        )
        rows += [[one.name, kind, count] for kind, count in sorted(kinds.items())]
    return Table("Wrong actions", ["benchmark", "what the program says of it", "count"], rows)


def clusters(benchmarks: Sequence[Benchmark]) -> Table:
    """Measure how far the failures of one problem's executions go together."""
    rows = []
    for one in benchmarks:
        outcomes = [execution.failed is None for execution in one.executions]
        of = codes([execution.truth.cluster for execution in one.executions], len(outcomes))
        effect = design_effect(np.asarray(outcomes, dtype=float), of)
        sizes = np.bincount(of)
        size = float((sizes**2).sum() / sizes.sum())
        inner = (effect - 1) / (size - 1) if size > 1 else float("nan")
        alone, together = rate(outcomes), one.right()
        rows.append(
            [
                one.name,
                len(outcomes),
                len(sizes),
                f"{inner:.2f}" if size > 1 else "",
                f"{effect:.2f}",
                f"{together.effective:.0f}",
            ]
            + [per_cent(alone), per_cent(together)]
        )
    header = ["benchmark", "executions", "problems", "ICC", "design effect", "effective n", "Wilson", "over problems"]
    return Table("Clusters", header, rows)
