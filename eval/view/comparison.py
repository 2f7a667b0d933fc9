"""What a model wrote beside what is true, frame by frame."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import repeat

from remedy.data_gen.traces.parse import Reader
from remedy.eval.decoding.cursor import Generated
from remedy.eval.decoding.protocol import FREELY
from remedy.eval.view.structure import Block, Token, blocks_of
from remedy.eval.view.text import token_texts
from remedy.models.tokenizer import TraceTokenizer


@dataclass(frozen=True)
class Comparison:
    """How what was written is laid beside the truth.

    `reader` says which frame a token belongs to where a run goes on over several frames. Without one, every written token stands
    for the true token in its place, as in one-token formats and under teacher forcing.
    """

    tokenizer: TraceTokenizer
    reader: Reader | None

    def blocks(self, truth: Sequence[Token], runs: Sequence[Generated], labels: Mapping[int, str]) -> tuple[Block, ...]:
        """A block for every true frame, and for frames that were written after the last; `labels` as for `blocks_of`.

        Tokens that the model did not write are not supervised in this view, and shown grey.
        """
        asked = {place for run in runs for place in range(run.start, run.stop)}
        true = [token._replace(supervised=place in asked) for place, token in enumerate(truth)]
        written: dict[int, list[Token]] = {}
        for token in self._written(true, runs):
            written.setdefault(token.frame, []).append(token)
        blocks = []
        for block in blocks_of(true, labels):
            here = written.pop(block.frame, [])
            # What is given is shown once.
            shown = self._shown(block.tokens, here) if block.frame >= 0 else None
            blocks.append(replace(block, written=shown))
        blocks += [Block(frame, f"frame {frame}", (), self._shown((), here)) for frame, here in sorted(written.items())]
        return tuple(blocks)

    def _shown(self, true: Sequence[Token], written: Sequence[Token]) -> tuple[Token, ...]:
        return _aligned(true, written) if self.reader is not None else tuple(written)

    def _written(self, true: Sequence[Token], runs: Sequence[Generated]) -> Iterator[Token]:
        """The decoded sequence: fed tokens are true ones, the others the model's. Nothing, if the model was not run."""
        if not runs:
            return
        end = 0
        for run in runs:
            yield from true[end : run.start]
            yield from self._run(true, run)
            end = run.stop
        yield from true[end:]

    def _run(self, true: Sequence[Token], run: Generated) -> Iterator[Token]:
        texts = token_texts(self.tokenizer, run.ids)
        near = [true[min(run.start + offset, run.stop - 1)] for offset in range(len(run.ids))]
        if self.reader is None:
            frames = [token.frame for token in near]
        else:
            frames = self._frames(self.reader, true[run.start : run.stop], run.ids, texts)
        columns = zip(run.ids, texts, frames, near, run.logprobs or repeat(None), run.held or repeat(FREELY))
        for id, text, frame, token, logprob, held in columns:
            yield token._replace(
                id=id,
                text=text,
                frame=frame,
                special=self.tokenizer.is_special(id),
                wrong=self.reader is None and id != token.id,
                supervised=not held.certain,
                logprob=None if held.certain or logprob is None or math.isnan(logprob) else logprob,
            )

    def _frames(self, reader: Reader, stretch: Sequence[Token], ids: Sequence[int], texts: Sequence[str]) -> list[int]:
        """The frame of each token that was written in place of a true stretch."""
        numbers = list(dict.fromkeys(token.frame for token in stretch))
        if len(numbers) == 1:
            return numbers * len(ids)
        found = []
        for id, text in zip(ids, texts):
            (piece,) = self.tokenizer.pieces([id]) if self.tokenizer.is_special(id) else [text]
            reader.feed(piece)
            found.append(frame_at(numbers, reader.place))
        return found


def frame_at(numbers: Sequence[int], place: int) -> int:
    """The number of the frame at a place among the written ones; those after the last are numbered on from it."""
    return numbers[place] if place < len(numbers) else numbers[-1] + 1 + place - len(numbers)


def _aligned(true: Sequence[Token], written: Sequence[Token]) -> tuple[Token, ...]:
    """The written tokens of a frame with the roles of the true ones that they agree with; the model's others are wrong.

    A wrong token has the role of the true one where it stands.
    """
    matcher = SequenceMatcher(None, [token.id for token in true], [token.id for token in written], autojunk=False)
    found = []
    for tag, start, _, first, last in matcher.get_opcodes():
        for offset, token in enumerate(written[first:last]):
            if tag == "equal":
                near = true[start + offset]
                found.append(token._replace(role=near.role, string=near.string))
            else:
                role = true[min(start, len(true) - 1)].role if true else token.role
                found.append(token._replace(role=role, string=False, wrong=token.supervised))
    return tuple(found)
