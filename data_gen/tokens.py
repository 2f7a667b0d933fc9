"""Example as a model reads it: parallel arrays over its tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Tokens(NamedTuple):
    """Tokens of one example, or of several joined; every array is (T,)."""

    ids: npt.NDArray[np.int64]
    """Token ids."""
    roles: npt.NDArray[np.int8]
    """Number of each token's role."""
    frames: npt.NDArray[np.int32]
    """Number of each token's frame; -1 in the context."""
    strings: npt.NDArray[np.bool_]
    """Whether a token overlaps the text of a string value."""
    positions: npt.NDArray[np.int64]
    """Position of each token in its own example or window, from 0."""

    @property
    def size(self) -> int:
        return len(self.ids)
