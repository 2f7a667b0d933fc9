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
    as_in_loop: bool = False
    """Whether they are read as in the plain loop, so that predictions stand even at a near tie."""
    cached: int = 0
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
        self.ended = cursor.finished

    def verify(self, proposal: Proposal, scores: Scores | None, tie_bound: float) -> int:
        """Verify predictions, and return how many of the proposal's tokens are right.

        `scores`: None if `tokens` are not whole. `tie_bound`: margins below it are near ties.
        """
        self.verified = 0
        if scores is None:
            return len(proposal.tokens)
        was_undecided, self.undecided = self.undecided, False
        draft = proposal.draft
        accepted = 0
        wrong, matches = False, True  # matches: all that was read is right, so a prediction follows it
        while not self.ended:
            needs_prediction = not self.cursor.settled
            if needs_prediction and not matches:
                break
            if needs_prediction and not scores.knows(accepted, self.cursor.choices):
                self.undecided = True
                break
            predicted = scores.prediction(accepted, self.cursor.choices) if needs_prediction else SETTLED
            if predicted.margin < tie_bound:
                self.near_ties += not was_undecided
                self.undecided = not proposal.as_in_loop
                if self.undecided:
                    break
            token = self._advance(predicted)
            if token is None:
                break
            if matches and accepted < len(draft) and draft[accepted] == token:
                accepted, self.verified = accepted + 1, self.verified + needs_prediction
            elif matches:
                matches, wrong = False, accepted < len(draft)
        self.departed |= wrong
        if draft:
            self.drafter.record_result(not wrong)
            self.reach = max(FEW, 2 * accepted, self.reach // 4) if wrong else 2 * self.reach
        return len(proposal.tokens) + accepted - self.undecided

    def _advance(self, predicted: Prediction) -> int | None:
        """Return the token read next; None if the row has ended or is renewed."""
        token = self.cursor.next_token(predicted.token, predicted.logprob, predicted.cut)
        if token is not None:
            self.read.append(token)
        elif self.cursor.waits and not self.cursor.finished:
            before = len(self.read) + 1
            self.read = self.cursor.prompt()
            self.drafter.renew(before - len(self.read))
            self.prompt, self.renewed, self.departed = len(self.read), True, False
            self.lasting = self.cursor.remembered.lasting
        self.ended = self.cursor.finished
        return token
