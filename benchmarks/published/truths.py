"""The true trace of every execution in the model's own format: how many tokens of it have which role, which values it spells."""

from __future__ import annotations

from typing import NamedTuple

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example, Execution, write
from remedy.data_gen.execution.pool import trace_one
from remedy.data_gen.execution.program import UNCHANGED, Program, Trace, Value
from remedy.data_gen.execution.sandbox import TracerConfig
from remedy.data_gen.roles import Role
from remedy.data_gen.tasks.program_sources import Case
from remedy.data_gen.tasks.programs import ProgramsTask, load_cases
from remedy.data_gen.tasks.task import Drawn
from remedy.data_gen.traces.string_encodings import escape
from remedy.data_gen.traces.values import literal
from remedy.models.tokenizer import TraceTokenizer
from remedy.settings import build

LIMIT = 8192
"""Tokens that the model may have written, as HumanEval's report says."""
KINDS = ("string", "holds strings", "number", "other")
JUDGED_FRAMES = 3000
"""An output is compared with so many true frames: in LIMIT tokens there are fewer."""
MOST_CHARACTERS = 20_000
"""A longer value is not looked into."""


class Shown(NamedTuple):
    """A value that a true trace spells out, in which frame, under which name (empty: returned or raised), and in how many tokens.
    `new`: neither spelled in a frame before nor in the program, so that it had to be worked out."""

    frame: int
    name: str
    value: Value
    kind: str
    tokens: int
    new: bool


class Truth(NamedTuple):
    """Truth of one execution. `tokens`: that the model has to write, in all, None where it is not traced whole; `roles`: by a role's
    number, nothing where there are more than LIMIT, which no output can hold; `shown`: likewise."""

    case: str
    cluster: str
    tokens: int | None
    roles: list[int]
    shown: list[Shown]


def data_of(benchmark: str, path: str | None) -> DataConfig:
    """Programs of a benchmark, in the model's own format."""
    return build(
        DataConfig,
        {
            "task": {"kind": "programs", "benchmark": benchmark, "path": path},
            "format": "cwm",
            "reveal": {"locals": "diff"},
        },
        f"the programs of {benchmark}",
    )


def cases_of(data: DataConfig) -> dict[str, Case]:
    """The benchmark's executions by name."""
    assert isinstance(data.task, ProgramsTask)
    return {case.id: case for case in load_cases(data.task)}


def example_of(program: Program, cluster: str, data: DataConfig) -> Example:
    """A program, run in a sandbox and written down."""
    drawn = Drawn(program, program.code, 0, {}, returns=True, cluster=cluster)
    return write(Execution(0, "all", drawn, trace_one(program, TracerConfig())), data)


def beginning(example: Example, data: DataConfig) -> Example:
    """The first JUDGED_FRAMES frames of an example, as if its trace ended there."""
    if len(example.trace.frames) <= JUDGED_FRAMES:
        return example
    trace = Trace(example.trace.program, example.trace.frames[:JUDGED_FRAMES])
    drawn = Drawn(trace.program, example.identity, 0, {}, returns=True, cluster=example.cluster)
    return write(Execution(0, "all", drawn, trace), data)


def truth_of(case: Case, data: DataConfig, tokenizer: TraceTokenizer) -> Truth:
    """Trace one execution of a benchmark."""
    example = example_of(case.program, case.group, data)
    if example.outcome != "ok":
        return Truth(case.id, case.group, None, [], [])
    roles = written_tokens(example, tokenizer)
    total = sum(roles)
    if total > LIMIT:
        return Truth(case.id, case.group, total, [], [])
    return Truth(case.id, case.group, total, roles, shown_in(example, tokenizer))


def written_tokens(example: Example, tokenizer: TraceTokenizer) -> list[int]:
    """Tokens that the model has to write, by the roles' numbers."""
    counts = tokenizer.count_by_role(example.spans)
    counts[Role.CONTEXT] = 0
    return counts


def shown_in(example: Example, tokenizer: TraceTokenizer) -> list[Shown]:
    """The values that frames spell out, in order."""
    found: list[Shown] = []
    before: set[str] = set()
    for place, frame in enumerate(example.frames):
        for name, value in [*(frame.locals or {}).items(), *([("", frame.value)] if frame.value is not None else [])]:
            if value is UNCHANGED:
                continue
            new = value.text not in before and value.text not in example.program
            found.append(shown(place, name, value, tokenizer, new))
            before.add(value.text)
    return found


def shown(place: int, name: str, value: Value, tokenizer: TraceTokenizer, new: bool) -> Shown:
    """A value as a trace spells it."""
    return Shown(place, name, value, kind_of(value), len(tokenizer.string_ids(escape(value.text))), new)


def kind_of(value: Value) -> str:
    """Classify a value by KINDS: a container that holds a string at any depth is one that does."""
    if value.is_string:
        return "string"
    if value.type in ("int", "float", "bool", "complex"):
        return "number"
    if value.type in ("list", "tuple", "dict", "set", "frozenset") and _holds(value.text):
        return "holds strings"
    return "other"


def _holds(text: str) -> bool:
    """Say if a container's repr holds a string: it does where its literal does; one that is no literal, where it has a quote."""
    if len(text) > MOST_CHARACTERS:
        return "'" in text or '"' in text
    try:
        return _any_string(literal(text))
    except ValueError:
        return "'" in text or '"' in text


def _any_string(value: object) -> bool:
    if isinstance(value, dict):
        return any(_any_string(key) or _any_string(held) for key, held in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_any_string, value))
    return isinstance(value, str)
