"""Notebook views of an example and of a report."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from remedy.checksums import read_json
from remedy.data_gen.config import DataConfig
from remedy.eval.view.model import View
from remedy.eval.view.terminal import page, show_view
from remedy.launch.generate import GenerateConfig
from remedy.launch.show import example_view
from remedy.settings import UserError
from remedy.train.config import RunConfig

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ShownExample:
    """An example by role: HTML in a notebook, else plain text."""

    view: View

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(page(self.view))}" style="width:100%;height:480px;border:0"></iframe>'

    def __str__(self) -> str:
        console = Console(no_color=True, force_terminal=False, width=120)
        with console.capture() as captured:
            show_view(self.view, console)
        return captured.get()


def show(config: DataConfig | RunConfig, index: int = 0, split: str = "train") -> ShownExample:
    """Show one example by token; unsupervised tokens are grey.

    Raises:
        UserError: there is no such split or index.
    """
    settings = GenerateConfig(data=config) if isinstance(config, DataConfig) else config
    return ShownExample(example_view(settings, Path("the configuration"), index, split))


@dataclass(frozen=True)
class Report:
    """A written report as pandas tables and figures."""

    folder: Path

    def to_pandas(self) -> pd.DataFrame:
        """Return the conditions, with rates and intervals."""
        return self._table("conditions")

    def verdicts(self) -> pd.DataFrame:
        """Return the comparisons with difference, interval and verdict."""
        return self._table("verdicts")

    def figures(self) -> dict[str, Path]:
        return {path.stem: path for path in sorted((self.folder / "figures").glob("*.png"))}

    def _repr_html_(self) -> str:
        return str(self.verdicts().to_html(index=False)) + str(self.to_pandas().to_html(index=False))

    def _table(self, name: str) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(read_json(self.folder / "report.json", "make the report again")[name])


def report(evaluations: Sequence[str | Path], out: str | Path, title: str = "Report") -> Report:
    """Compare evaluations as `remedy report` does, the baseline first.

    Raises:
        UserError: as `remedy report`, or no evaluation is given.
    """
    from remedy.eval.report.page import report as write

    if isinstance(evaluations, (str, Path)) or not evaluations:
        raise UserError("report: give a list of folders of evaluations")
    return Report(write([Path(folder) for folder in evaluations], Path(out), title=title).parent)
