"""Diagnostic of any programs: plain or rewritten, traced or answered at once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, SerializeAsAny, model_validator

from remedy.data_gen.config import DataConfig
from remedy.data_gen.rewrites import REWRITES, Rewriting, rewrites_of
from remedy.data_gen.tasks import TASKS, Task
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.data_gen.traces.string_encodings import EncodingName
from remedy.eval.decoding.forcings import Forcing
from remedy.eval.diagnostics.condition import (
    DIAGNOSTICS,
    MOST_EXAMPLES,
    REVEAL_FRAMES,
    REVEAL_LOOPS,
    Condition,
    Diagnostic,
    extent,
)
from remedy.eval.records.schema import label
from remedy.eval.tables.sections import Published
from remedy.registry import by_kind

BENCHMARK = label("benchmark", "Where the programs come from: a benchmark, a file, or a task that generates them.")
REWRITE = label("rewrite", "The rewrite applied to every program, or `none`, or `all`.", ("none", *REWRITES, "all"))
_FORCING: tuple[Forcing, ...] = ("free", "action_forced")


CWM_32B = Published(
    "facebook/cwm 32B, published",
    {
        "benchmark": "cruxeval",
        "rewrite": "none",
        "format": "cwm",
        "string_encoding": "plain",
        "locals": "diff",
        "spacing": 1.0,
        "answer_only": False,
        "forcing": "free",
    },
    {
        "Examples": "800",
        "Right": "88.0%",
        "Valid format": "99.6%",
        "States": "96.9%",
        "Actions": "96.5%",
        "Variables": "99.1%",
        "With values": "98.1%",
    },
    "measured by others on all 800 programs, with prompts, tracer, decoding and scoring of their own and no intervals: part of any "
    "difference from the rows above may be these. To compare, evaluate that model here.",
)
"""Code World Model's report on CruxEval-O, tracing freely."""


@DIAGNOSTICS.register("programs")
class ProgramsDiagnostic(Diagnostic):
    """Accuracy on programs of any task, by rewrite, trace form and forcing."""

    title = "Traced programs"
    labels = (BENCHMARK, REWRITE)
    compared = ("rewrite", "spacing", "locals", REVEAL_FRAMES.name, REVEAL_LOOPS.name, "string_encoding", "answer_only")
    published = (CWM_32B,)

    kind: Literal["programs"] = "programs"
    """The diagnostic."""
    sources: tuple[Annotated[SerializeAsAny[Task], by_kind(TASKS, "programs")], ...] = ()
    """Tasks, by default of kind `programs`; empty: that of the data configuration. Of programs that the checkpoint was trained on,
    only one split is evaluated."""
    forcing: tuple[Forcing, ...] = Field(default=_FORCING, min_length=1)
    """The roles that the decoder feeds in a trace, one condition each: `free`, `line_forced`, `action_forced`, `state_forced`,
    `teacher_forced`, `control_flow`, or a list of roles."""
    answer_only: tuple[bool, ...] = Field(default=(False, True), min_length=1)
    """False: the model writes a trace. True: it writes the answer at once, freely."""
    rewrites: tuple[Rewriting, ...] = Field(default=("none",), min_length=1)
    """Rewrites of the programs, one condition each: `none`, `all`, or one by name."""
    reveals: tuple[dict[str, Any], ...] = ()
    """Changes of `data.reveal`, one condition each, such as `{spacing: 4, frames: shown}`; empty: that of the data configuration."""
    string_encodings: tuple[EncodingName, ...] = ()
    """String encodings; empty: that of the data configuration."""
    examples: int | None = Field(default=None, ge=1, le=MOST_EXAMPLES)
    """Number of programs per source, the first ones; by default all, or 100 generated ones."""

    @model_validator(mode="after")
    def _something_to_do(self) -> ProgramsDiagnostic:
        if self.answer_only == (True,):
            for name, neutral in (("forcing", _FORCING), ("reveals", ())):
                if getattr(self, name) != neutral:
                    raise ValueError(f"{name} does nothing with answer_only: [true]: remove it")
        return self

    def conditions(self, data: DataConfig, split: str, trained_on: Task | None = None) -> list[Condition]:
        conditions = []
        for source in self.sources or (data.task,):
            from_split, count = extent(self.kind, source, split, trained_on, self.examples)
            for rewrite, encoding in itertools.product(self.rewrites, self.string_encodings or (data.string_encoding,)):
                task = source if rewrite == "none" else source.rewritten(rewrites_of(rewrite))
                changes = {"task": task.model_dump(), "string_encoding": encoding}
                for reveal, forcing in self._reveals(data):
                    memory = {"memory": None} if reveal.answer_only else {}  # an answer has no frames to forget
                    changed = data.changed({**changes, **memory, "reveal": reveal.model_dump()}, "diagnostic programs")
                    labels = {"benchmark": source.name, "rewrite": rewrite}
                    conditions.append(self.condition(changed, forcing, count, from_split, **labels))
        return conditions

    def _reveals(self, data: DataConfig) -> Iterator[tuple[RevealConfig, Forcing]]:
        """Yield reveals with forcings: traces, then answers at once."""
        for answer_only in self.answer_only:
            if answer_only:
                yield RevealConfig(answer_only=True, max_tokens=data.reveal.max_tokens), "free"
                continue
            traced = data.reveal.changed({"answer_only": False})
            for changes, forcing in itertools.product(self.reveals or ({},), self.forcing):
                yield traced.changed(changes, "diagnostic programs: reveals"), forcing
