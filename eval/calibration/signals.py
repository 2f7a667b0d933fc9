"""Signals of doubt: what is known of each frame of a written trace when it is written, without any truth.

Each is causal: of a frame it uses that frame and the frames before it. Each grows with doubt, and those that are made of probabilities
are log-odds, since a model that knows how sure it may be has the log-odds of its own error on that scale.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator

from remedy.eval.records.generations import FrameProbability

SIGNALS = {
    "least_probability": "log-odds that the least likely of the frame's tokens is another one",
    "frame_probability": "log-odds that any of them is another one",
    "margin": "how near the likeliest token and the next come to each other, at the token where they are nearest",
    "cut": "log-odds that the model would have written what its constraint does not allow",
    "contradiction": "1 if the states written before do not lead to the frame's event and line, or the program never does, else 0",
    "call_depth": "logarithm of 1 more than the calls that are open where the frame stands, by the events written up to it",
    "tokens_so_far": "logarithm of the tokens that the model wrote up to the frame's end",
    "frame_number": "logarithm of the frame's number among the written ones",
}
"""The signals, with a sentence on each."""
NUMBER = "frame_number"
"""The signal that knows nothing but how long the trace is: what the others are compared with."""
UNTOLD = frozenset({"least_probability", "frame_probability", "cut"})
"""Signals that need the probability of every token among all tokens, which servers do not tell of a choice among some."""
MOST = 20.0
"""Log-odds and margins are cut at this value: further away is rounding."""

Signals = dict[str, float | None]
"""The value of each signal; null where it cannot be told."""


def signals(
    frames: Iterable[FrameProbability], constrained: bool, contradictions: Collection[int] | None
) -> Iterator[Signals]:
    """The signals of each frame that the model wrote tokens of, in their order.

    `constrained`: whether it was held to what a constraint allows; `contradictions`: as of `Generation`, None where it cannot be told.
    """
    tokens = 0
    for frame in frames:
        tokens += frame.tokens
        yield signals_of(frame, tokens, constrained, None if contradictions is None else frame.place in contradictions)


def signals_of(frame: FrameProbability, tokens: int, constrained: bool, contradicts: bool | None) -> Signals:
    """The signals of one frame. `tokens`: how many the model has written up to its end."""
    return {
        "least_probability": _odds(-math.expm1(frame.logprob_min)),
        "frame_probability": _odds(-math.expm1(frame.logprob_sum)),
        "margin": None if math.isnan(frame.margin_min) else -min(frame.margin_min, MOST),
        "cut": _odds(frame.cut) if constrained else None,
        "contradiction": None if contradicts is None else float(contradicts),
        "call_depth": None if math.isnan(frame.depth) else math.log1p(frame.depth),
        "tokens_so_far": math.log1p(tokens),
        "frame_number": math.log1p(frame.place),
    }


def _odds(probability: float) -> float | None:
    """The logarithm of the odds of a probability, which rounding may put outside of 0 to 1; None where that is unknown."""
    if math.isnan(probability):
        return None
    if probability <= 0:
        return -MOST
    return MOST if probability >= 1 else min(max(math.log(probability) - math.log1p(-probability), -MOST), MOST)
