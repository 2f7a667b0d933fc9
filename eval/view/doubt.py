"""How sure a model was of what it wrote, in four steps: the same in the terminal and on pages."""

from __future__ import annotations

import math

BORDERS = (0.99, 0.9, 0.5)
"""Probabilities at which the steps begin, the surest first."""
NAMES = ("0.99 and more", "0.9 to 0.99", "0.5 to 0.9", "below 0.5")
SURE = 0


def doubt(logprob: float | None) -> int:
    """The step of a token by its log-probability; the surest where that is not known."""
    if logprob is None:
        return SURE
    return next((step for step, border in enumerate(BORDERS) if math.exp(logprob) >= border), len(BORDERS))


def shown(probability: float) -> str:
    """A probability as it is shown: `0.973`, `1`, `3e-05`."""
    return f"{probability:.3g}"
