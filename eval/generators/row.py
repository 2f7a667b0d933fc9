"""One example that is being written with guesses: what stands of it, what is read next, and what a model's predictions make of that.

It knows no model: predictions are token ids with their log-probabilities and margins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from remedy.eval.decoding.cursor import Cursor
from remedy.eval.generators.drafts import Draft, Drafter, Source
from remedy.eval.generators.scores import Prediction, Scores

SETTLED = Prediction(-1, 0.0, math.inf)
"""Stands where no model is proposal."""


PRIOR = ((9.8, 10.0), (3.0, 4.0), (3.0, 4.0))
"""For each source of drafts: tokens right and tokens judged, as if they had been seen before."""
RECENT = 0.8
"""What a row's own record is multiplied with when it is judged again: it is of late."""
OWN = 8.0
"""How many judged tokens of its own weigh as much as all that is known of other rows."""


class Record:
    """Rate at which drafts of each source were right."""

    def __init__(self, prior: Sequence[tuple[float, float]] = PRIOR, memory: float = 1.0) -> None:
        self._memory = memory
        self._counts = [list(one) for one in prior]

    def judge(self, source: Source, right: int, wrong: bool) -> None:
        """So many of its tokens were right, and whether one was wrong after them."""
        counts = self._counts[source]
        counts[0] = counts[0] * self._memory + right
        counts[1] = counts[1] * self._memory + right + wrong

    def chance(self, own: Record, source: Source) -> float:
        """Return how likely the next token is right of a row with a record of its `own`."""
        (all_right, all_judged), (right, judged) = self._counts[source], own._counts[source]
        return (OWN * all_right / all_judged + right) / (OWN + judged)


class Proposal(NamedTuple):
    """Tokens that are read next of a row: `tokens` that stand and are not held yet, all of them or the first ones, and a draft of
    what follows all of them."""

    tokens: list[int]
    draft: Draft
    whole: bool
    """Whether these are all tokens that stand, so that what is predicted after them counts."""
    decides: bool
    """Whether it is read as the plain loop would, so that what is predicted is taken however near a tie."""

    @property
    def length(self) -> int:
        return len(self.tokens) + len(self.draft.tokens)


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
        self.record = Record(((0.0, 0.0),) * len(Source), RECENT)
        self.undecided = False
        """Whether what comes next was not told: a near tie, which a step of one token has to decide, or a choice among tokens of which
        none is the likeliest."""
        self.departed = False
        """Whether a draft was wrong since the row began."""
        self.renewed = False
        """Whether it has just forgotten a frame, and begins anew with what it still sees."""
        self.near_ties = 0
        self.judged = (Source.TRUTH, 0, False)
        """Of the last draft: its source, how many tokens were right of those that a model judges, whether one was wrong."""
        self.ended = cursor.over

    def judge(self, proposal: Proposal, scores: Scores | None, near: float) -> int:
        """Walk on with what was predicted after the tokens that were asked for; how many of them, and of the draft, stand.

        `scores`: None where not all tokens that stand were asked for. `near`: margins below it are near ties.
        """
        self.judged = (proposal.draft.source, 0, False)
        if scores is None:
            return len(proposal.tokens)
        again, self.undecided = self.undecided, False
        guessed = proposal.draft.tokens
        right = judged = 0
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
                right, judged = right + 1, judged + ask
            elif following:
                following, wrong = False, right < len(guessed)
        self._learn(proposal.draft, right, judged, wrong)
        return len(proposal.tokens) + right - self.undecided

    def step(self, scores: Scores, place: int, near: float) -> None:
        """Walk on by one token, as the plain loop, and over those that are settled then. `place`: of the row's prediction."""
        predicted = SETTLED if self.cursor.settled else scores.at(place, self.cursor.among)
        self.near_ties += predicted.margin < near and not self.undecided
        self.undecided = False
        token = self._walk(predicted)
        while token is not None and not self.ended and self.cursor.settled:
            token = self._walk(SETTLED)

    def _walk(self, predicted: Prediction) -> int | None:
        """The token that is read next; None where nothing follows what the reader holds: the row has ended, or begins anew."""
        token = self.cursor.next_token(predicted.token, predicted.logprob, predicted.cut)
        if token is not None:
            self.read.append(token)
        elif self.cursor.waits and not self.cursor.over:
            before = len(self.read) + 1
            self.read = self.cursor.prompt()
            self.drafter.renew(len(self.read), before)
            self.prompt, self.renewed, self.departed = len(self.read), True, False
            self.lasting = self.cursor.sight.lasting
        self.ended = self.cursor.over
        return token

    def _learn(self, draft: Draft, right: int, judged: int, wrong: bool) -> None:
        self.departed |= wrong
        self.record.judge(draft.source, judged, wrong)
        self.judged = (draft.source, judged, wrong)
        if not self.renewed:
            self.drafter.returned(draft, right)
