"""All executions of a benchmark: what is true of each, and of the failed ones what was published and what the judge says of it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.published.outputs import Judged, judge
from benchmarks.published.reports import Failed, Report, read_report
from benchmarks.published.truths import (
    LIMIT,
    Shown,
    Truth,
    beginning,
    cases_of,
    data_of,
    example_of,
    truth_of,
    written_tokens,
)
from remedy.data_gen.roles import Role
from remedy.data_gen.traces.values import same_value
from remedy.eval.stats import Estimate, rate
from remedy.models.tokenizer import TraceTokenizer

ACTS = (Role.EVENT, Role.ACTION)
GROUPS = {"action": ACTS, "state": (Role.STATE,), "value": (Role.VALUE,)}
"""Roles that are compared: an event and its line are one action, as a wrong event shows in the line."""


class Execution(NamedTuple):
    """One execution. Of a failed one: `failed`, and `judged` unless its program is not traced whole; `tokens` is of the true trace that
    was asked for, as is `truth` but for executions whose prompt asks for another call."""

    truth: Truth
    tokens: int | None
    failed: Failed | None = None
    judged: Judged | None = None

    @property
    def outcome(self) -> str:
        """Classify the outcome of a failed execution."""
        return outcome(self.failed, self.judged) if self.failed is not None else "right"

    @property
    def erred(self) -> bool:
        """Say if a frame that was written is wrong."""
        return self.judged is not None and self.judged.place is not None

    def exposure(self, roles: Sequence[Role]) -> int:
        """True tokens of these roles at which the model could have made its first error."""
        if self.judged is not None:
            score = dict(self.judged.score)
            return sum(int(str(score[f"out_of_{role.label}"])) for role in roles)
        return sum(self.truth.roles[role] for role in roles) if self.truth.roles else 0

    def values(self) -> list[Shown]:
        """The values that the model had to spell up to its first error, whose place is the last."""
        if self.judged is None or self.judged.place is None:
            return [] if self.judged is not None and self.judged.cut else self.truth.shown
        place, wrong = self.judged.place, self.judged.wrong
        found = [one for one in self.truth.shown if one.frame < place]
        return [*found, self.as_true(wrong)] if wrong is not None else found

    def as_true(self, wrong: Shown) -> Shown:
        """The wrong value as the true trace has it; one that the truth does not spell there is not new."""
        spelled = (one for one in self.truth.shown if (one.frame, one.name) == (wrong.frame, wrong.name))
        return next(spelled, wrong._replace(new=False))


class Benchmark(NamedTuple):
    name: str
    report: Report
    executions: list[Execution]

    @property
    def failed(self) -> list[tuple[Failed, Execution]]:
        return [(one.failed, one) for one in self.executions if one.failed is not None]

    def right(self, wrong: Sequence[str] | None = None) -> Estimate:
        """The share of executions that are right, or whose outcome is none of `wrong`, over clusters."""
        outcomes = [one.failed is None if wrong is None else one.outcome not in wrong for one in self.executions]
        return rate(outcomes, [one.truth.cluster for one in self.executions])

    def outcomes(self) -> Counter[str]:
        return Counter(one.outcome for one in self.executions)


OTHER_CALL = "another call was asked for, and answered rightly"
SAME_VALUE = "the answer is right, and spelled otherwise"
NO_ANSWER = "the trace is right to its end, the answer block is missing"
COPIED = "the trace is right to its end, the answer block is not"
CUT_RIGHT = "right until the limit cut it"
CUT_WRONG = "wrong, then cut by the limit"
WRONG = "wrong, and ended"
EMPTY = "no output"
UNTRACED = "not judged: the true trace is not recorded whole"
OUTCOMES = (OTHER_CALL, SAME_VALUE, NO_ANSWER, COPIED, EMPTY, CUT_RIGHT, CUT_WRONG, WRONG, UNTRACED)
MODEL = (CUT_WRONG, WRONG, COPIED)
"""What went wrong in what the model wrote."""


def outcome(failed: Failed, judged: Judged | None) -> str:
    """One of OUTCOMES."""
    if judged is None:
        return UNTRACED
    if not judged.restored.pieces:
        return EMPTY
    if judged.place is not None:
        return CUT_WRONG if judged.cut and not judged.restored.ended else WRONG
    if not judged.trace_right:
        return CUT_RIGHT
    if not judged.answer_right:
        return NO_ANSWER if judged.answer_right is None else COPIED
    return SAME_VALUE if same_value(failed.expected, judged.result) else OTHER_CALL


def collect(folder: Path, benchmark: str, path: str | None, tokenizer: TraceTokenizer) -> Benchmark:
    """Everything about one benchmark. Its programs run in the package's sandbox; minutes."""
    data = data_of(benchmark, path)
    report = read_report(folder, benchmark)
    failed = {one.case: one for one in report.failed}
    found = []
    for number, case in enumerate(cases_of(data).values(), start=1):
        truth = truth_of(case, data, tokenizer)
        published = failed.get(case.id)
        if published is None:
            found.append(Execution(truth, truth.tokens))
        else:
            asked = example_of(published.program, case.group, data)
            judged = None if asked.outcome != "ok" else judge(published, beginning(asked, data), data, tokenizer)
            tokens = None if asked.outcome != "ok" else sum(written_tokens(asked, tokenizer))
            found.append(Execution(truth, tokens, published, judged))
        if number % 100 == 0:
            print(f"{benchmark}: {number} executions", file=sys.stderr)
    return Benchmark(benchmark, report, found)


def over(executions: Sequence[Execution], limit: int = LIMIT) -> Iterator[Execution]:
    """The executions whose true trace has more tokens than a limit; one that is not traced whole has."""
    return (one for one in executions if one.tokens is None or one.tokens > limit)
