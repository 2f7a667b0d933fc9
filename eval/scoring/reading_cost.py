"""Tokens that a model reads to write a trace with its memory: the cost that forgetting saves or adds."""

from __future__ import annotations

from collections.abc import Iterator

from remedy.data_gen.roles import Role, Special
from remedy.data_gen.traces.render import FORMATS
from remedy.data_gen.window_examples import windows
from remedy.eval.decoding.context_window import Sight
from remedy.eval.scoring.common import Decoded
from remedy.models.tokenizer import TraceTokenizer


def read_tokens(decoded: Decoded, tokenizer: TraceTokenizer) -> int:
    """Tokens that are seen at the model's last token, and wherever a frame was forgotten before: there reading begins anew.

    Each stretch from one such place to the next counts its prompt, what is fed and what is written in it: what the plain loop reads
    from the stretch's first token on with a cache. Guesses read more at fewer calls, and are not counted; nor is it taken off where a
    generator, or a server, keeps what it has read of the context.
    """
    truth, memory = decoded.truth, decoded.data.memory
    if decoded.parallel:
        return sum(window.size for window in windows(*truth[:3], memory, tokenizer.special_ids))
    read, begun = 0, True
    sight = Sight(truth.ids[: _context(decoded)], memory, tokenizer.special_ids)
    for token, closes in _tokens(decoded, tokenizer):
        seen, begun = sight.size + 1, True
        if sight.take(token, closes):
            read, begun = read + seen, False
    return read + sight.size * begun


def _tokens(decoded: Decoded, tokenizer: TraceTokenizer) -> Iterator[tuple[int, bool]]:
    """The tokens after the context, up to the last that the model wrote, each with whether it closes a frame."""
    ids, frames = decoded.truth.ids, decoded.truth.frames
    exact = FORMATS[decoded.data.format].one_token
    frame_end = None if exact or decoded.structure_fed else tokenizer.special_ids[Special.FRAME_SEP]

    def last(at: int) -> bool:
        return at + 1 < len(frames) and frames[at] != frames[at + 1]

    at = _context(decoded)
    written = [run for run in decoded.runs if run.ids]
    for run in written:
        yield from ((ids[place], last(place)) for place in range(at, run.start))
        for place, token in enumerate(run.ids, start=run.start):
            yield token, last(place) if exact else token == frame_end
        at = run.stop


def _context(decoded: Decoded) -> int:
    roles = decoded.truth.roles
    return next((at for at, role in enumerate(roles) if role != Role.CONTEXT), len(roles))
