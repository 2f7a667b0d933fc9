"""Choice and writing of a trace's frames in a format."""

from __future__ import annotations

from itertools import repeat
from typing import Annotated

from remedy.data_gen.execution.program import Trace
from remedy.data_gen.traces.cwm import Cwm
from remedy.data_gen.traces.frames import Format, Rendered, WrittenFrame
from remedy.data_gen.traces.marks import marked_lines
from remedy.data_gen.traces.repl import Repl
from remedy.data_gen.traces.reveal import RevealConfig, kept_frames, reveal
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
    numbers = kept_frames(trace.frames, config)
    frames = trace.frames if len(numbers) == len(trace.frames) else [trace.frames[number] for number in numbers]
    writer = FORMATS[format]
    marked = marked_lines(trace.program.code) if config.at is not None else ()
    chosen = map(
        WrittenFrame,
        numbers,
        [frame.event for frame in frames] if writer.events else repeat(None),
        [frame.source for frame in frames],
        reveal(frames, config, seed, marked),
        [frame.value for frame in frames],
    )
    return writer.write(trace, list(chosen), context=context, encoding=string_encoding, answer_only=config.answer_only)
