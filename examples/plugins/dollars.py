"""A trace format of your own: the `repl` format with another prompt.

How to add: write a subclass of `Format` with `write`, which makes spans with roles, and a `reader` of what a model
writes in it. Register an instance, give this file by `--plugin`, and name it in `data.format`.
"""

from collections.abc import Sequence
from typing import Any

from remedy.data_gen.execution.program import Trace
from remedy.data_gen.traces.frames import Rendered, WrittenFrame
from remedy.data_gen.traces.parse import Reader
from remedy.data_gen.traces.render import FORMATS
from remedy.data_gen.traces.repl import Repl, ReplReader


class Dollars(Repl):
    """A session whose prompt is a dollar sign."""

    def write(self, trace: Trace, frames: Sequence[WrittenFrame], **how: Any) -> Rendered:
        spans, written = super().write(trace, frames, **how)
        texts = [s._replace(piece=s.piece.replace(">>> ", "$ ")) if isinstance(s.piece, str) else s for s in spans]
        return Rendered(texts, written)

    def reader(self, answer_only: bool = False) -> Reader:
        return DollarReader()


class DollarReader(ReplReader):
    """Reads it as a session with the usual prompt."""

    def _text(self, text: str) -> None:
        super()._text(text.replace("$ ", ">>> "))


FORMATS.register("dollars")(Dollars())
