"""Progress of an experiment's runs: one live table on a terminal; elsewhere a line for every change, and one every 30 seconds."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from rich.console import Console
from rich.live import Live
from rich.table import Table

from remedy.files import replace_file
from remedy.speed import Speed, duration
from remedy.train.progress import validation_figures
from remedy.train.tracking import METRICS, last_record

log = logging.getLogger(__name__)
EVALUATED = "evaluated.json"
QUIET_SECONDS = 30.0
COLOURS = {"waiting": "dim", "done": "green", "failed": "bold red"}


class Progress(NamedTuple):
    """Progress of one run. `stage`: waiting, starting, training, evaluating, done or failed; `left`: seconds, if known."""

    stage: str
    done: int = 0
    of: int = 0
    loss: float | None = None
    tokens_per_second: float | None = None
    left: float | None = None
    result: str = ""
    validated: str = ""

    @property
    def place(self) -> str:
        """`250 of 800`; nothing before there is anything to count."""
        return f"{self.done} of {self.of}" if self.of else ""

    def __str__(self) -> str:
        what = {"training": "step ", "evaluating": "condition "}.get(self.stage, "")
        parts = [self.stage, what + self.place if self.of else "", self.result]
        if self.stage == "training":
            parts += [f"loss {self.loss:.4g}" if self.loss is not None else ""]
            parts += [f"{self.tokens_per_second:,.0f} tokens/s" if self.tokens_per_second else ""]
            parts += [f"validation {self.validated}" if self.validated else ""]
            parts += [f"{duration(self.left)} left" if self.left else ""]
        return ", ".join(part for part in parts if part)


def note_condition(folder: Path, number: int, of: int, result: str, finished: float) -> None:
    """Return what a run's process leaves in its folder after each condition that it has evaluated, and now and then within one.

    `number` of `of`: which it is; `finished`: how many are, with the part of one that is evaluated."""
    text = json.dumps({"number": number, "of": of, "result": result, "finished": finished})
    replace_file(folder / EVALUATED, lambda partial: partial.write_text(text, encoding="utf-8"))


class Watch:
    """Reads the progress of one run that another process does from its folder."""

    def __init__(self, folder: Path, model: Path, steps: int) -> None:
        self.folder, self.metrics, self.steps = folder, model / METRICS, steps
        self._training, self._evaluation = Speed(), Speed()

    def look(self, trained: bool) -> Progress:
        """Return where it is now. `trained`: it is being evaluated."""
        if trained:
            return self._evaluating()
        record = last_record(self.metrics)
        if record is None:
            return Progress("starting")
        step = record["step"]
        left = self._training.left(step, self.steps)
        validation = last_record(self.metrics, "eval_loss")
        validated = validation_figures(validation) if validation is not None else ""
        return Progress(
            "training", step, self.steps, record["loss"], record.get("tokens_per_second"), left, validated=validated
        )

    def _evaluating(self) -> Progress:
        try:
            noted = json.loads((self.folder / EVALUATED).read_text(encoding="utf-8"))
            number, of, result = int(noted["number"]), int(noted["of"]), str(noted["result"])
            left = self._evaluation.left(float(noted["finished"]), of)
        except (
            OSError,
            LookupError,
            TypeError,
            ValueError,
        ):  # not there yet, or damaged: nothing but this line depends on it
            return Progress("evaluating")
        return Progress("evaluating", number, of, left=left, result=result)


class Board:
    """Shows the progress of all runs, as a context."""

    def __init__(self, names: Iterable[str], console: Console | None = None) -> None:
        self.console = console or Console()
        self.begin = time.monotonic()
        self.shown: dict[str, tuple[str, float]] = dict.fromkeys(names, ("waiting", self.begin))
        self.live = Live(console=self.console, refresh_per_second=4) if self.console.is_terminal else None

    def __enter__(self) -> Board:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def show(self, runs: Mapping[str, Progress]) -> None:
        """The state of all runs; call it often."""
        if self.live is not None:
            self.live.update(self._table(runs))
            return
        now = time.monotonic()
        for name, progress in runs.items():
            stage, since = self.shown[name]
            due = progress.stage in ("training", "evaluating") and now - since >= QUIET_SECONDS
            if progress.stage != stage or due:
                self.shown[name] = (progress.stage, now)
                log.info("[%5.0f s] %s: %s", now - self.begin, name, progress)

    def _table(self, runs: Mapping[str, Progress]) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in ("run", "stage", "step", "loss", "tokens/s", "left", "last figures"):
            table.add_column(title, justify="right" if title in ("step", "loss", "tokens/s", "left") else "left")
        for name, p in runs.items():
            figures = (
                "" if p.loss is None else f"{p.loss:.4g}",
                f"{p.tokens_per_second:,.0f}" if p.tokens_per_second else "",
            )
            table.add_row(
                name, p.stage, p.place, *figures, duration(p.left), p.result or p.validated, style=COLOURS.get(p.stage)
            )
        return table
