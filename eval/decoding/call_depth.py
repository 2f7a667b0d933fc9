"""Depth of calls of a trace's frames, as whoever writes it has it: by the events up to each frame, without a truth."""

from __future__ import annotations

import math
from collections.abc import Iterable

from remedy.data_gen.execution.program import Event
from remedy.data_gen.roles import Role
from remedy.data_gen.traces.cwm import EVENT_TOKENS, Cwm
from remedy.data_gen.traces.render import FORMATS
from remedy.models.tokenizer import TraceTokenizer


class CallDepth:
    """Takes the frames of one trace in turn. As `reveal.levels` counts, the entry's own frames stand at 0; a trace that returns from
    more calls than it made stays there."""

    def __init__(self, format: str, tokenizer: TraceTokenizer) -> None:
        form = FORMATS[format]
        told = isinstance(form, Cwm)
        self._events = {tokenizer.special_ids[token]: event for event, token in EVENT_TOKENS.items()} if told else {}
        self._depth = 0 if isinstance(form, Cwm) and form.seeded else -1

    def take(self, tokens: Iterable[tuple[int, Role]]) -> float:
        """The depth of the next frame, of these tokens and their roles; NaN where the format writes no events."""
        if not self._events:
            return math.nan
        event = next((self._events.get(token) for token, role in tokens if role is Role.EVENT), None)
        found = max(self._depth + (event is Event.CALL), 0)
        self._depth = found - (event is Event.RETURN)
        return float(found)
