"""Right texts that a model cuts into other tokens than the true ones.

Subwords can cut one text in several ways. Under teacher forcing a model may choose a token that is not the true one and yet begins
the true text. The model then writes on from there. If it writes the true text, the part of the frame is right: it gets the true
tokens, with unknown probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from remedy.data_gen.roles import Role
from remedy.data_gen.window_examples import Window
from remedy.eval.generators.base import DecodingOptions
from remedy.eval.generators.scores import most_likely
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer
from remedy.models.tokenizer_backends.base import TokenizerError

COMPARED = frozenset({Role.STATE, Role.VALUE, Role.ACTION})
"""Roles whose texts may be cut otherwise. Separators and events are one token each."""
UNREADABLE = "\N{REPLACEMENT CHARACTER}"
"""What some bytes of a character decode to."""


class OtherCut:
    """Part of a frame whose first wrong token begins the true text that is left.

    `first` and `stop` are the positions of that token and of the part's end. `right` says whether the model wrote the true text;
    None until that is known.
    """

    def __init__(self, truth: Encoded, first: int, stop: int, token: int, tokenizer: TraceTokenizer) -> None:
        self.truth, self.first, self.stop, self.tokenizer = truth, first, stop, tokenizer
        begin = first - 1
        # Some vocabularies drop a space at a text's start, so texts are compared after a token before. It begins a character, since
        # the last bytes of different characters decode alike.
        while begin > 0 and tokenizer.decode(truth.ids[begin:first])[:1] in ("", UNREADABLE):
            begin -= 1
        self.before = truth.ids[begin:first]
        self.text = tokenizer.decode([*self.before, *truth.ids[first:stop]])
        self.written: list[int] = []
        self.right: bool | None = None
        self.take(token)

    @property
    def most(self) -> int:
        """Return how many tokens the model may write, as in other forcings: twice the true ones and 16."""
        return 2 * (self.stop - self.first) + 16

    def take(self, token: int) -> None:
        """Add a token of the model and compare the texts."""
        self.written.append(token)
        try:
            text = self.tokenizer.decode([*self.before, *self.written])
        except TokenizerError:  # a model may have ids beyond its vocabulary
            self.right = False
            return
        if self.tokenizer.is_special(token):  # its name may stand in the true text
            self.right = False
        elif text == self.text:
            self.right = True
        elif not self.text.startswith(text.rstrip(UNREADABLE)) or len(self.written) == self.most:
            self.right = False

    def prompt(self, windows: Sequence[Window], limit: int | None) -> list[int]:
        """Return the tokens after which the model writes on; empty if it need not, or if its limit leaves too little room.

        `windows`: of the example.
        """
        if self.right is not None:
            return []
        window = next(window for window in windows if self.first < window.stop)
        seen = [self.truth.ids[position] for position in window.positions if position < self.first]
        return [*seen, *self.written] if limit is None or len(seen) + self.most <= limit else []

    def settle(self, ids: list[int], logprobs: list[float]) -> None:
        """Put the true tokens in place of the predicted ones if the model wrote the true text."""
        if self.right:
            positions = slice(self.first, self.stop)
            ids[positions] = self.truth.ids[positions]
            logprobs[positions] = [math.nan] * (self.stop - self.first)


def other_cuts(
    truth: Encoded, options: DecodingOptions, ids: Sequence[int], tokenizer: TraceTokenizer
) -> list[OtherCut]:
    """Return the parts of an example that may be right in other tokens than the true ones.

    `ids`: the predicted token at each position of the example. In one-token formats there are none.
    """
    if options.exact:
        return []
    cuts = []
    parts = groupby(range(len(truth.ids)), key=lambda position: (truth.frames[position], truth.roles[position]))
    for (_, role), group in parts:
        positions = list(group)
        if role not in COMPARED & options.predicted:
            continue
        wrong = next((position for position in positions if ids[position] != truth.ids[position]), None)
        if wrong is not None:
            cut = OtherCut(truth, wrong, positions[-1] + 1, ids[wrong], tokenizer)
            if cut.right is not False:
                cuts.append(cut)
    return cuts


def write_on(reader: ModelReader, prompted: Sequence[tuple[OtherCut, list[int]]], most: int) -> None:
    """Have a model write each part after its prompt, at most so many together, and no more than memory has room for."""
    group: list[tuple[OtherCut, list[int]]] = []
    available = reader.available() if prompted else 0.0
    room = available
    for cut, prompt in prompted:
        size = reader.footprint.of(len(prompt) + cut.most)
        if group and (len(group) == most or size > room):
            _write_together(reader, group)
            group, room = [], available
        group.append((cut, prompt))
        room -= size
    if group:
        _write_together(reader, group)


def _write_together(reader: ModelReader, group: Sequence[tuple[OtherCut, list[int]]]) -> None:
    cuts = [cut for cut, _ in group]
    logits = reader.prefill([prompt for _, prompt in group])
    while any(cut.right is None for cut in cuts):
        following: list[int | None] = []
        for cut, token in zip(cuts, most_likely(logits).tokens):
            if cut.right is None:
                cut.take(token)
            following.append(token if cut.right is None else None)
        logits = reader.step(following)
