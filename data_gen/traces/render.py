"""Choice and writing of a trace's frames in a format."""

from __future__ import annotations

from itertools import repeat
from typing import Annotated

from remedy.data_gen.execution.program import Trace
from remedy.data_gen.roles import Role, Span, Special
from remedy.data_gen.traces.budget import describe
from remedy.data_gen.traces.cwm import Cwm
from remedy.data_gen.traces.frames import Format, Rendered, WrittenFrame
from remedy.data_gen.traces.repl import Repl
from remedy.data_gen.traces.reveal import RevealConfig, written_states
from remedy.data_gen.traces.spans import Spans
from remedy.data_gen.traces.symbolic import Symbolic
from remedy.registry import Registry, one_of

FORMATS: Registry[Format] = Registry("trace format")
FORMATS["cwm"] = Cwm()
FORMATS["cwm_unseeded"] = Cwm(seeded=False)
FORMATS["cwm_numbered"] = Cwm(numbers="beside")
FORMATS["cwm_numbers"] = Cwm(numbers="alone")
FORMATS["repl"] = Repl()
FORMATS["symbolic"] = Symbolic()

FormatName = Annotated[str, one_of(FORMATS)]


def render(
    trace: Trace,
    format: str = "cwm",
    config: RevealConfig | None = None,
    *,
    context: bool = True,
    string_encoding: str = "plain",
    seed: int = 0,
) -> Rendered:
    """Write a trace in a format.

    `context`: show the program (`cwm` formats always do). `seed`: of variables shown at random.
    """
    config = config or RevealConfig()
    states = written_states(trace, config, seed)
    frames = [trace.frames[number] for number in states]
    writer = FORMATS[format]
    chosen = map(
        WrittenFrame,
        states,
        [frame.event for frame in frames] if writer.events else repeat(None),
        [frame.source for frame in frames],
        states.values(),
        [frame.value for frame in frames],
    )
    written = writer.write(
        trace, list(chosen), context=context, encoding=string_encoding, answer_only=config.answer_only
    )
    if not config.leaves_out:
        return written
    return written._replace(spans=_asking(written.spans, f"# reveal: {describe(config)}\n"))


def _asking(spans: list[Span], line: str) -> list[Span]:
    """Put a line after the program, at the end of the context's text."""
    end = next(
        (i for i, span in enumerate(spans) if span.piece is Special.FRAME_SEP or span.role is not Role.CONTEXT),
        len(spans),
    )
    context = Spans(spans[:end])
    context.text(Role.CONTEXT, line, -1)
    return [*context, *spans[end:]]
