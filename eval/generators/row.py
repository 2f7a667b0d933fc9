"""One example that is being written with guesses: what stands of it, what is read next, and what a model's predictions make of that.

It knows no model: predictions are token ids with their log-probabilities and margins.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from remedy.eval.decoding.cursor import Cursor
from remedy.eval.generators.drafts import Drafter
from remedy.eval.generators.scores import Prediction, Scores

SETTLED = Prediction(-1, 0.0, math.inf)
"""Stands where no model is asked."""
FEW = 8
"""Tokens that are guessed at least after a draft that was wrong."""


class Proposal(NamedTuple):
    """Tokens that are read next of a row: `tokens` that stand and are not held yet, all of them or the first ones, and a draft of
    what follows all of them."""

    tokens: list[int]
    draft: list[int]
    whole: bool = False
    """Whether these are all tokens that stand, so that what is predicted after them counts."""
    decides: bool = False
    """Whether it is read as the plain loop would, so that what is predicted is taken however near a tie."""
    held: int = 0
    """How many tokens a cache holds before them."""

    @property
    def length(self) -> int:
        return len(self.tokens) + len(self.draft)


class Row:
    """One example that is being written."""

    def __init__(self, number: int, cursor: Cursor) -> None:
        """`number`: what the row is called."""
        self.number = number
        self.cursor = cursor
        self.read = cursor.prompt()
        """All that stands: what was fed and written so far."""
        if not self.read:
            raise ValueError("nothing is fed before the first generated token: feed CONTEXT")
        self.prompt = len(self.read)
        self.lasting = 0
        """How many of the first tokens stand again whenever it begins anew; none until it has: its first stretch is read as any."""
        self.drafter = Drafter(cursor)
        self.reach = FEW
        """How many tokens are guessed once it has left the truth: twice as many after a draft that was right, a quarter after another,
        or twice as many as were right of it."""
        self.undecided = False
        """Whether what comes next was not told: a near tie, which a step of one token has to decide, or a choice among tokens of which
        none is the likeliest."""
        self.departed = False
        """Whether a draft was wrong since the row began."""
        self.renewed = False
        """Whether it has just forgotten a frame, and begins anew with what it still sees."""
        self.near_ties = 0
        self.judged = 0
        """Of the last draft: how many tokens were right of those that a model judges."""
        self.ended = cursor.over

    def judge(self, proposal: Proposal, scores: Scores | None, near: float) -> int:
        """Walk on with what was predicted after the tokens that were asked for; how many of them, and of the draft, stand.

        `scores`: None where not all tokens that stand were asked for. `near`: margins below it are near ties.
        """
        self.judged = 0
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
                right, self.judged = right + 1, self.judged + ask
            elif following:
                following, wrong = False, right < len(guessed)
        self.departed |= wrong
        if guessed:
            self.drafter.judged(not wrong)
            self.reach = max(FEW, 2 * right, self.reach // 4) if wrong else 2 * self.reach
        return len(proposal.tokens) + right - self.undecided

    def _walk(self, predicted: Prediction) -> int | None:
        """The token that is read next; None where nothing follows what the reader holds: the row has ended, or begins anew."""
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
