"""An example as a model reads it: parallel arrays over its tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Tokens(NamedTuple):
    """The tokens of one example, or of several joined into one row; every array has the shape (T,)."""

    ids: npt.NDArray[np.int64]
    """Token ids."""
    roles: npt.NDArray[np.int8]
    """The role of each token, by its number."""
    frames: npt.NDArray[np.int32]
    """The number of the trace's frame that each token belongs to; -1 in the context."""
    strings: npt.NDArray[np.bool_]
    """Whether a token overlaps the text of a string value."""
    positions: npt.NDArray[np.int64]
    """The place of each token in its own example, or in what is seen of it: 0 where one begins."""

    @property
    def size(self) -> int:
        """Count the tokens."""
        return len(self.ids)
