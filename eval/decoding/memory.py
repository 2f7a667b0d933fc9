"""Tokens that a row with a memory (`data.memory`) still sees.

After a frame is forgotten, the remaining tokens are read again at new positions, as in a training window
(`data_gen.window_examples`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from remedy.data_gen.memory import Memory, RememberedFrames
from remedy.data_gen.roles import Special


class RememberedTokens:
    """Tokens that one row sees: its context, the remembered frames and the open frame.

    Without a memory (None) all frames are remembered. A frame whose special tokens match no event opens and ends no call. `size`:
    number of these tokens.
    """

    def __init__(self, context: Sequence[int], memory: Memory | None, special_ids: Mapping[Special, int]) -> None:
        self._context = context
        self._frames = RememberedFrames(memory, special_ids) if memory is not None else None
        self._closed: dict[int, list[int]] = {}
        self._number = 0
        self._open: list[int] = []
        self.size = len(context)

    @property
    def forgets(self) -> bool:
        return self._frames is not None

    @property
    def lasting(self) -> int:
        """Count the tokens at the beginning that are never forgotten; 0 without a memory."""
        return len(self._context) if self.forgets else 0

    def take(self, token: int, closes: bool) -> bool:
        """Add a token and return whether a frame was forgotten.

        All is read again then. `closes`: whether the token is the last of its frame.
        """
        self._open.append(token)
        self.size += 1
        if not closes:
            return False
        frame, self._open = self._open, []
        self._closed[self._number] = frame
        self._number += 1
        forgotten = self._frames.close(frame) if self._frames else []
        self.size -= sum(len(self._closed.pop(number)) for number in forgotten)
        return bool(forgotten)

    def reach(self, tokens: Iterable[tuple[int, bool]]) -> int | None:
        """Count the given tokens before a frame is forgotten; None if none is.

        `tokens`: pairs as `take` receives them.
        """
        if self._frames is None:
            return None
        # On copies, since the tokens are a draft, which may be dropped.
        remembered, frame = self._frames.copy(), list(self._open)
        for count, (token, closes) in enumerate(tokens):
            frame.append(token)
            if closes:
                if remembered.close(frame):
                    return count
                frame = []
        return None

    def tokens(self) -> list[int]:
        return [*self._context, *chain.from_iterable(self._closed.values()), *self._open]
