"""Settings of an example: what is generated and how it is written."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, SerializeAsAny, model_validator

from remedy.data_gen.memory import Memory
from remedy.data_gen.tasks import TASKS, Task
from remedy.data_gen.traces.frames import Format
from remedy.data_gen.traces.render import FORMATS, FormatName
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.data_gen.traces.string_encodings import EncodingName
from remedy.messages import shown
from remedy.registry import by_kind
from remedy.settings import ABSENT, ConfigError, Settings, low_high, read_stored, take_out

log = logging.getLogger(__name__)
HIGHEST_LINE = 1_000_000
"""Largest number of a first line."""


class DataConfig(Settings):
    """Settings of generated data: `task` draws programs, the rest writes them."""

    task: Annotated[SerializeAsAny[Task], by_kind(TASKS)]
    """The programs; `kind` chooses the task."""
    format: FormatName = "cwm"
    """The text form of a trace: the code world model's own (`cwm`), a Python session (`repl`), or one token per variable, value and
    command (`symbolic`). `cwm_unseeded`: the model writes the first frame too. `cwm_numbered`: each line's number stands beside it, in
    the program and in the trace. `cwm_numbers`: beside it in the program, and in its place in the trace."""
    context: bool = True
    """The program precedes its trace (always so in the cwm formats)."""
    reveal: RevealConfig = RevealConfig()
    """Which frames are written, which of them show their state, and how."""
    first_line: int | tuple[int, int] = 1
    """The number of a program's first line in formats with line numbers, fixed or drawn from [low, high]."""
    string_encoding: EncodingName = "plain"
    """How string values are written in the trace. 'abc' is `abc` (`plain`), `a b c` (`spaced`), `['a', 'b', 'c']` (`list`) or
    `0:a 1:b 2:c` (`indexed`)."""
    encode_source: bool = False
    """Write the string literals of source lines under `string_encoding` too, in the prompt and in the trace. The program that runs is
    as it is."""
    memory: Memory | None = None
    """The frames that a model still sees, after the context, while it predicts one, in training and decoding. `4`: the last four.
    `{frames: 4, open_calls: true}`: also the frames of every call that has not returned. Null: all. Positions restart where frames
    are dropped. With fewer frames than `reveal.spacing`, a model may see no state, and not the value that a `..` stands for."""
    seed: int = Field(default=0, ge=0, lt=2**64)
    """Chooses the programs, together with the split and the index."""

    @model_validator(mode="after")
    def _settings_fit(self) -> DataConfig:
        if problem := next(self._problems(), ""):
            raise ValueError(problem)
        self.refuse_idle(self.without_effect())
        return self

    def _problems(self) -> Iterator[str]:
        form, low, high = FORMATS[self.format], *self.first_lines()
        if not 1 <= low <= high <= HIGHEST_LINE:
            yield (
                f"first_line must be 1 to {HIGHEST_LINE}, or [low, high] with 1 <= low <= high <= {HIGHEST_LINE}; got "
                f"{shown(self.first_line)}"
            )
        if self.reveal.answer_only and self.task.returns_nothing():
            yield "reveal.answer_only asks for the returned value, and these programs return nothing: remove it"
        if self.reveal.at is not None and (form.one_token or not self.context):
            why = "context: false hides" if not form.one_token else f"the {self.format} format writes without comments"
            yield f"reveal.at {self.reveal.at} goes by marks in the program, which {why}: remove it, or show the program as text"
        if not self.context and not form.hides_program:
            yield f"the {self.format} format always shows the program: remove `context: false`"
        if not self.context and not self.task.has_sessions:
            yield (
                f"task {self.task.kind} needs its program: remove `context: false`, or take a model that was trained to read programs"
            )
        if self.reveal.answer_only and not form.answers_only:
            able = _formats(lambda other: other.answers_only)
            yield f"the {self.format} format cannot ask for the answer alone: use {able}, or remove answer_only"
        if self.reveal.leaves_out and form.one_token:
            setting = "frames" if self.reveal.frames != "all" else "loops"
            yield (
                f"reveal.{setting}: the {self.format} format has no text that says which frames to write: use another, or remove it"
            )
        if self.reveal.frames != "all" and self.memory is not None and self.memory.open_calls:
            yield f"memory.open_calls: reveal.frames shown leaves out the returns that end calls: use memory {self.memory.frames}"
        if self.memory is not None and not (form.closes_frames or form.one_token):
            able = _formats(lambda other: other.closes_frames or other.one_token)
            yield (
                f"memory {self.memory}: nothing that a model writes in the {self.format} format says where a frame ends: use {able}, "
                "or remove memory"
            )
        if self.memory is not None and self.memory.open_calls and not form.events:
            able = _formats(lambda other: other.closes_frames and other.events)
            yield (
                f"memory.open_calls: the {self.format} format writes no events, so that no frame says what is called or returns: use "
                f"{able}, or memory {self.memory.frames}"
            )

    def without_effect(self) -> dict[str, str]:
        """Map settings without effect, by dotted key, to the reason."""
        session = self.writes_sessions and self.task.has_sessions
        reasons = {f"task.{key}": reason for key, reason in self.task.without_effect(session).items()}
        if session:
            reasons["reveal.call_depth"] = "in a session, which calls nothing"
        elif not self.task.has_calls():
            reasons["reveal.call_depth"] = "in programs that call nothing"
        if session or not self.task.has_loops():
            reasons["reveal.loops"] = "in programs without loops"
        if (session or not self.task.has_calls()) and self.reveal.spacing == 1 and self.reveal.locals != "changes":
            reasons["reveal.frames"] = "with spacing 1, which keeps every state"
        if not self.task.has_strings(session):
            reasons["string_encoding"] = "where no value is a string or holds one"
        if self.string_encoding == "plain":
            reasons["encode_source"] = "with string_encoding plain"
        if self.reveal.answer_only:
            reasons["memory"] = "with reveal.answer_only, which writes no frames before the answer"
        if not FORMATS[self.format].numbers_lines:
            reasons["first_line"] = f"in the {self.format} format, whose lines have no numbers"
        if not self.task.is_seeded:
            reasons["seed"] = f"for task {self.task.kind}, whose programs are given"
        return reasons

    def first_lines(self) -> tuple[int, int]:
        return low_high(self.first_line)

    @property
    def writes_sessions(self) -> bool:
        """Say if the format writes sessions where the task has them."""
        return FORMATS[self.format].session


def _formats(able: Callable[[Format], bool]) -> str:
    return ", ".join(name for name, form in FORMATS.items() if able(form))


def read_stored_run(path: Path) -> dict[str, Any]:
    """Read a run's stored settings, without interpreter and isolation.

    Raises:
        ConfigError: as `read_stored`, or `data` is no section.
    """
    stored = read_stored(path) if path.exists() else {}
    if not isinstance(data := stored.setdefault("data", {}), dict):
        raise ConfigError(f"{path}: key 'data': must be a section, such as {{key: value}}, got {shown(data)}")
    # A downloaded checkpoint must not choose what runs programs here, or switch their sandbox off.
    for key in ("python", "isolation"):
        value = take_out(stored, f"data.task.tracer.{key}")
        if value not in (ABSENT, None, "auto"):
            keys = f"(data.task.tracer.{key}, or set.task.tracer.{key} of an evaluation)"
            log.warning("%s: task.tracer.%s %s is left out: what you give decides %s", path, key, shown(value), keys)
    return stored
