"""Rewards for reinforcement learning on traces: an interpreter that pays for every right frame.

The functions here have the form that TRL's `GRPOTrainer` calls (`reward_funcs`): lists of completions and dataset columns in, a list
of floats out. The dataset has the columns `prompt`, `trace` and
`answer_frames`, as `dataset` makes it. What a model wrote is read as data, never run.

    >>> reward = TraceReward(tokenizer, parts={"prefix": 1.0, "answer": 1.0})
    >>> GRPOTrainer(model, reward_funcs=reward, train_dataset=dataset(load(RunConfig, "mine.yaml").data, 1000), ...)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.roles import Role, Special, spans_text
from remedy.data_gen.traces.judge import TraceScore, judge, pieces, spells_tokens
from remedy.data_gen.traces.parse import Piece
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.scoring.frames import answer_places
from remedy.messages import suggest
from remedy.settings import UserError

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset
    from transformers import PreTrainedTokenizerBase

PIECE = 100
"""Examples that are made at a time."""
PARTS: dict[str, Callable[[TraceScore], float]] = {
    "prefix": lambda score: score.prefix,
    "answer": lambda score: float(score.right),
    "format": lambda score: float(score.valid),
    "whole": lambda score: float(score.first_wrong is None),
}
"""What a trace is paid for, each from 0 to 1: the share of frames that are right before the first wrong one (which a trace that goes on
after its end has too), the right answer, a text that reads as a trace to its end, and the true trace with nothing after it."""


class TraceReward:
    """The weighted mean of `PARTS`, from 0 to 1, for each completion; None where the row has no trace."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, format: str = "cwm", parts: Mapping[str, float] | None = None
    ) -> None:
        """`parts`: weights by name, by default of `prefix` alone.

        Raises:
            UserError: a part has another name or no positive weight, the format has no text, or the tokenizer lacks the format's special tokens.
        """
        self.parts = dict(parts or {"prefix": 1.0})
        for name, weight in self.parts.items():
            if name not in PARTS:
                raise UserError(f"parts: there is no reward {name!r}; {suggest(name, PARTS)}")
            if not 0 < weight < math.inf:
                raise UserError(f"parts: {name}: must be above 0 and finite, and is {weight}: leave it out instead")
        self.form = FORMATS[format]
        if self.form.one_token:
            raise UserError(f"format: {format} has no text to read: take another")
        self.tokenizer = tokenizer
        known = tokenizer.get_vocab()
        self._special = {known[special.value]: special for special in Special if special.value in known}
        needed = (Special.FRAME_SEP, Special.END_OF_TEXT) if self.form.closes_frames else (Special.END_OF_TEXT,)
        if lacking := [special.value for special in needed if special not in self._special.values()]:
            raise UserError(
                f"tokenizer: has no token {lacking[0]}, which format {format} is made of: take the tokenizer of a model "
                "that `remedy train` wrote"
            )
        self.__name__ = "trace_" + "_".join(self.parts)

    def __call__(
        self,
        completion_ids: Sequence[Sequence[int]],
        trace: Sequence[str | None],
        answer_frames: Sequence[Sequence[int]],
        **columns: Any,
    ) -> list[float | None]:
        """The rewards of completions, by their token ids, since texts come to a reward without their special tokens.

        Raises:
            ValueError: a row's true trace does not read as one, or there are not as many of each.
        """
        return [
            None if true is None else self._reward(self.score(ids, true, places))
            for ids, true, places in zip(completion_ids, trace, answer_frames, strict=True)
        ]

    def score(self, ids: Sequence[int], true: str, answer_frames: Sequence[int]) -> TraceScore:
        """Score a completion beside the true trace: what of it is right, and which role is wrong first."""
        return judge(self._pieces(ids), pieces(true), self.form, answer_frames)

    def _reward(self, score: TraceScore) -> float:
        return sum(weight * PARTS[name](score) for name, weight in self.parts.items()) / sum(self.parts.values())

    def _pieces(self, ids: Sequence[int]) -> list[Piece]:
        """The ids as text and special tokens, to the first end of text."""
        found: list[Piece] = []
        text: list[int] = []
        for token in [*ids, None]:
            special = self._special.get(token) if token is not None else None
            if special is None and token is not None:
                text.append(token)
                continue
            if text:
                found.append(str(self.tokenizer.decode(text)))
                text = []
            if special is not None and special is not Special.PAD:
                found.append(special)
            if special is Special.END_OF_TEXT:
                break
        return found


def dataset(
    data: DataConfig, count: int, split: str = "train", streaming: bool = False
) -> Dataset | IterableDataset:
    """The first examples of a split as rows: `prompt` and `trace` as text with special tokens spelled out, `answer`, `answer_frames`, the
    frames that say the answer (counted from the end), `index` and `program`. Programs whose trace is no example are left out, and those whose
    text spells a special token, since texts would not tell it from the token.

    `streaming`: rows are made when they are read, and nothing is kept.

    Raises:
        UserError: the data asks for the answer without a trace, or has too few programs; streamed, the latter when they are read.
    """
    if data.reveal.answer_only:
        raise UserError("reveal.answer_only: leaves no trace to pay for: remove it")
    from datasets import Dataset, IterableDataset

    if streaming:
        return IterableDataset.from_generator(_rows, gen_kwargs={"data": data, "count": count, "split": split})
    return Dataset.from_list(list(_rows(data, count, split)))


def _rows(data: DataConfig, count: int, split: str) -> Iterator[dict[str, Any]]:
    for start in range(0, count, PIECE):
        for example in examples(data, split, range(start, min(start + PIECE, count))):
            if example.outcome != "ok" or spells_tokens(example.spans):
                continue
            given = [span for span in example.spans if span.role is Role.CONTEXT]
            written = [span for span in example.spans if span.role is not Role.CONTEXT]
            row = {"prompt": spans_text(given), "trace": spans_text(written), "answer": example.answer}
            own = {"index": example.index, "program": example.program, "answer_frames": answer_places(example)}
            yield {**row, **own}
