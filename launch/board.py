"""Progress of an experiment's runs: one live table on a terminal; elsewhere a line for every change, and one every 30 seconds."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

log = logging.getLogger(__name__)
QUIET_SECONDS = 30.0
TAIL = 1 << 14
"""Bytes from a log's end in which its last lines are looked for."""
COLOURS = {"waiting": "dim", "done": "green", "failed": "bold red"}


def last_line(path: Path, start: str = "") -> str:
    """The last line of a log that begins so and is not empty; an empty string if there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - TAIL))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return next((line for line in reversed(lines) if line.strip() and line.startswith(start)), "")


class Board:
    """Shows how far all runs are, as a context."""

    def __init__(self, names: Iterable[str], console: Console | None = None) -> None:
        console = console or Console()
        self.begin = time.monotonic()
        self.shown: dict[str, tuple[str, float]] = dict.fromkeys(names, ("waiting", self.begin))
        self.live = Live(console=console, refresh_per_second=4) if console.is_terminal else None

    def __enter__(self) -> Board:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def show(self, ended: Mapping[str, str], running: Mapping[str, Path]) -> None:
        """The state of all runs; call it often. `ended`: what went wrong, if anything; `running`: logs, whose last lines say more."""
        table = Table("run", "state", "", box=None, pad_edge=False, header_style="bold")
        now = time.monotonic()
        for name, (before, since) in self.shown.items():
            state, more = "waiting", ""
            if name in ended:
                state, more = ("failed", ended[name]) if ended[name] else ("done", "")
            elif name in running:
                state, more = "running", last_line(running[name])
            table.add_row(Text(name), state, Text(more), style=COLOURS.get(state))
            if state != before or (state == "running" and now - since >= QUIET_SECONDS):
                self.shown[name] = (state, now)
                if self.live is None:
                    log.info("[%5.0f s] %s: %s", now - self.begin, name, ", ".join(filter(None, (state, more))))
        if self.live is not None:
            self.live.update(table)
