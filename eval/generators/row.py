"""Row that is decoded with drafts, and their verification.

It calls no model: predictions are token ids with log-probabilities and margins.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from remedy.eval.decoding.cursor import Cursor
from remedy.eval.generators.drafts import Drafter
from remedy.eval.generators.scores import Prediction, Scores

SETTLED = Prediction(-1, 0.0, math.inf)
"""Stands in where no prediction is needed."""
FEW = 8
"""Length of the draft after a wrong one, in tokens, at least."""


class Proposal(NamedTuple):
    """Tokens that are read next of a row.

    `tokens` are certain and not cached: all of them or the first ones. `draft` follows all of them.
    """

    tokens: list[int]
    draft: list[int]
    whole: bool = False
    """Whether `tokens` are all such tokens, so that the prediction after them is used."""
    decides: bool = False
    """Whether they are read as in the plain loop, so that predictions stand even at a near tie."""
    held: int = 0
    """Number of tokens in the cache before them."""

    @property
    def length(self) -> int:
        return len(self.tokens) + len(self.draft)


class Row:
    """One example that is being written."""

    def __init__(self, number: int, cursor: Cursor) -> None:
        self.number = number
        self.cursor = cursor
        self.read = cursor.prompt()
        """All tokens so far, fed and written."""
        if not self.read:
            raise ValueError("nothing is fed before the first generated token: feed CONTEXT")
        self.prompt = len(self.read)
        self.lasting = 0
        """Number of first tokens that remain after frames are forgotten; 0 until that happens once."""
        self.drafter = Drafter(cursor)
        self.reach = FEW
        """Length of drafts once the row has left the truth. It doubles after a right draft. After a wrong one it falls to a
        quarter, or to twice the tokens that were right."""
        self.undecided = False
        """Whether the next token is not known yet: at a near tie, which a step of one token must decide, or if the likeliest
        allowed token is unknown."""
        self.departed = False
        """Whether a draft was wrong since the row began."""
        self.renewed = False
        """Whether the row has just forgotten a frame and must be read again."""
        self.near_ties = 0
        self.verified = 0
        """Number of right tokens of the last draft, among those that need a prediction."""
        self.ended = cursor.over

    def verify(self, proposal: Proposal, scores: Scores | None, near: float) -> int:
        """Verify predictions, and return how many of the proposal's tokens are right.

        `scores`: None if `tokens` are not whole. `near`: margins below it are near ties.
        """
        self.verified = 0
        if scores is None:
            return len(proposal.tokens)
        again, self.undecided = self.undecided, False
        guessed = proposal.draft
        right = 0
        wrong, following = False, True  # following: all that was read stands, so that there is a prediction after it
        while not self.ended:
            ask = not self.cursor.settled
            if ask and not following:
                break
            if ask and not scores.tells(right, self.cursor.among):
                self.undecided = True
                break
            predicted = scores.at(right, self.cursor.among) if ask else SETTLED
            if predicted.margin < near:
                self.near_ties += not again
                self.undecided = not proposal.decides
                if self.undecided:
                    break
            token = self._walk(predicted)
            if token is None:
                break
            if following and right < len(guessed) and guessed[right] == token:
                right, self.verified = right + 1, self.verified + ask
            elif following:
                following, wrong = False, right < len(guessed)
        self.departed |= wrong
        if guessed:
            self.drafter.verified(not wrong)
            self.reach = max(FEW, 2 * right, self.reach // 4) if wrong else 2 * self.reach
        return len(proposal.tokens) + right - self.undecided

    def _walk(self, predicted: Prediction) -> int | None:
        """Return the token read next; None if the row has ended or is renewed."""
        token = self.cursor.next_token(predicted.token, predicted.logprob, predicted.cut)
        if token is not None:
            self.read.append(token)
        elif self.cursor.waits and not self.cursor.over:
            before = len(self.read) + 1
            self.read = self.cursor.prompt()
            self.drafter.renew(before - len(self.read))
            self.prompt, self.renewed, self.departed = len(self.read), True, False
            self.lasting = self.cursor.sight.lasting
        self.ended = self.cursor.over
        return token
