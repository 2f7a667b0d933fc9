"""Interface of diagnostics: settings that define a grid of conditions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, field_validator

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Role, RoleName
from remedy.data_gen.splits import SEEN
from remedy.data_gen.tasks import Task
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.decoding.constraints import check_data
from remedy.eval.decoding.forcings import Forcing, check_forcing, constraint_of, fed_roles, forcing_name
from remedy.eval.records.folder import condition_name
from remedy.eval.records.schema import AT, Label, LabelValue, label
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.tables.sections import Published, Section
from remedy.registry import Registry
from remedy.settings import ConfigError, Settings

if TYPE_CHECKING:
    import pandas as pd

MOST_EXAMPLES = 10_000_000


REVEAL_FRAMES = label(
    "reveal_frames",
    "Which frames are written: `shown`, those that keep their state. Of conditions that leave others out.",
    asked=True,
)
REVEAL_LOOPS = label(
    "reveal_loops", "How many rounds of each loop are written. Of conditions that leave others out.", asked=True
)


class Condition(Settings):
    """A cell of a diagnostic's grid: the data, and how they are decoded."""

    diagnostic: str
    data: DataConfig
    forcing: Forcing
    examples: int
    split: str
    own_labels: dict[str, LabelValue]
    supervised: tuple[RoleName, ...] | None = None
    """The roles that training supervised; teacher forcing scores no others. None: all, or not known."""

    @property
    def labels(self) -> dict[str, LabelValue]:
        data = self.data
        return {
            **self.own_labels,
            "format": data.format,
            "string_encoding": data.string_encoding,
            "locals": data.reveal.locals,
            "spacing": float(data.reveal.spacing),
            **({} if data.reveal.at is None else {AT.name: str(data.reveal.at)}),
            **({} if data.reveal.frames == "all" else {REVEAL_FRAMES.name: data.reveal.frames}),
            **({} if data.reveal.loops is None else {REVEAL_LOOPS.name: data.reveal.loops}),
            "answer_only": data.reveal.answer_only,
            "forcing": forcing_name(self.forcing),
        }

    @property
    def slug(self) -> str:
        return condition_name(self.diagnostic, self.labels)


class Diagnostic(Settings, ABC):
    """Settings of a diagnostic, and its conditions."""

    title: ClassVar[str]
    """Its name in reports."""
    labels: ClassVar[tuple[Label, ...]] = ()
    """Labels of its conditions, besides the common ones."""
    axis: ClassVar[str | None] = None
    """The label on the x axis of figures, if one is a quantity."""
    compared: ClassVar[tuple[str, ...]] = ()
    """Labels by which a report compares conditions of one run."""
    published: ClassVar[tuple[Published, ...]] = ()
    """Figures of others, shown beside conditions with their labels."""

    kind: str
    """The name it is registered under."""
    forcing: tuple[Forcing, ...] = Field(default=("free",), min_length=1)
    """The roles that the decoder feeds, one condition each: `free` (only the context), `action_forced` (also true events, actions and
    separators; the states are the model's own), `line_forced` (the same without events), `state_forced` (true states, values and
    separators), `teacher_forced` (everything, in one parallel pass), `control_flow` (only the context, with events and actions
    constrained to the program's control flow), or a list of roles."""

    @field_validator("forcing")
    @classmethod
    def _known_forcing(cls, value: tuple[Forcing, ...]) -> tuple[Forcing, ...]:
        for forcing in value:
            check_forcing(forcing)
        return value

    @classmethod
    def sections(cls, conditions: Sequence[ConditionSummary], records: pd.DataFrame) -> list[Section]:
        """Make sections that only this diagnostic has, from records of traced programs."""
        return []

    @abstractmethod
    def conditions(self, data: DataConfig, split: str, trained_on: Task | None = None) -> list[Condition]:
        """List the conditions over a checkpoint's data; `trained_on`: its task.

        Raises:
            ConfigError: the diagnostic does not fit the data.
        """

    def condition(
        self, data: DataConfig, forcing: Forcing, examples: int, split: str, **labels: LabelValue
    ) -> Condition:
        """Make a condition with the diagnostic's own labels.

        Raises:
            ConfigError: forcing or constraint does not fit the data.
            ValueError: the labels are not the declared ones.
        """
        declared = {label.name for label in self.labels if not label.asked or label.name in labels}
        if declared != set(labels):
            raise ValueError(f"diagnostic {self.kind} declares the labels {sorted(declared)}, not {sorted(labels)}")
        if Role.ACTION not in fed_roles(forcing) and not data.context:
            raise ConfigError(
                f"diagnostic {self.kind}: forcing {forcing_name(forcing)} needs the program in the context (data.context=true); "
                "this data shows none, so its commands cannot be known: use forcing action_forced"
            )
        if forcing == "line_forced" and not FORMATS[data.format].events:
            raise ConfigError(
                f"diagnostic {self.kind}: forcing line_forced is action_forced in format {data.format}, which writes no events: "
                "use action_forced"
            )
        if constraint := constraint_of(forcing):
            check_data(constraint, data)
        return Condition(
            diagnostic=self.kind, data=data, forcing=forcing, examples=examples, split=split, own_labels=labels
        )


PAIRS = label(
    "test_pairs",
    "Whether a program has a pair of commands or functions that `task.held_out_pairs` names: training held it out, but of a control.",
    ("without", "with"),
    asked=True,
)


def check_test_pairs(kind: str, task: Task, split: str) -> None:
    """Raise a ConfigError if `test_pairs` has no held-out pairs to test."""
    if not getattr(task, "held_out_pairs", None):
        raise ConfigError(
            f"diagnostic {kind}: test_pairs: this training held out none; for a control, set those of the runs it is compared with "
            "(`set: {task.held_out_pairs: ...}`)"
        )
    if split in SEEN:
        raise ConfigError(f"diagnostic {kind}: test_pairs: programs of the {split} split have none: use split test")


GENERATED = 100
"""The default number of generated programs, which never end."""


def extent(
    kind: str, source: Task, split: str, trained_on: Task | None, examples: int | None = None
) -> tuple[str, int]:
    """Return the split and the number of a source's programs to evaluate.

    Raises:
        ConfigError: the split has no program, or training split the source by another rule.
    """
    if source.count("all") is None:
        return split, examples or GENERATED
    if trained_on is None or trained_on.name != source.name:
        split = "all"
    elif trained_on.splits_by != source.splits_by:
        raise ConfigError(
            f"diagnostic {kind}: {source.name} is split by {trained_on.splits_by} in training and by {source.splits_by} here, so that "
            "its test programs were trained on: give both the same"
        )
    if split != "all":
        source.require(split, 1, f"diagnostic {kind}")
    count = source.count(split)
    if not count:
        raise ConfigError(f"diagnostic {kind}: {source.name} has no program of the {split} split")
    return split, min(count, examples or count)


DIAGNOSTICS: Registry[type[Diagnostic]] = Registry("diagnostic")
"""Diagnostics by `kind`."""
