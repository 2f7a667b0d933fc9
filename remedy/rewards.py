"""Rewards for reinforcement learning on traces, as TRL's `reward_funcs`.

Model output is never run.

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
from remedy.data_gen.traces.comparison import TraceScore, compare_traces, pieces, spells_tokens
from remedy.data_gen.traces.parse import Piece
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.scoring.frames import answer_indices
from remedy.messages import suggest
from remedy.settings import UserError

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset
    from transformers import PreTrainedTokenizerBase

BATCH = 100
"""Examples made at a time."""
PARTS: dict[str, Callable[[TraceScore], float]] = {
    "prefix": lambda score: score.prefix,
    "answer": lambda score: float(score.right),
    "format": lambda score: float(score.valid),
    "whole": lambda score: float(score.first_wrong is None),
}
"""Parts of a reward, each from 0 to 1. `prefix`: the share of frames before the first wrong one; text after the true end counts as one
wrong frame. `answer`: the trace parses and gives the true answer. `format`: the text parses as a trace to its end. `whole`: the true
trace with nothing after it."""


class TraceReward:
    """Weighted mean of `PARTS`; None for a row without a trace."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, format: str = "cwm", parts: Mapping[str, float] | None = None
    ) -> None:
        """Take the weights of `parts`, by default `prefix` alone.

        Raises:
            UserError: an unknown part, a weight that is not positive, a format without text, or a tokenizer without
                special tokens.
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
        vocabulary = tokenizer.get_vocab()
        self._special = {vocabulary[special.value]: special for special in Special if special.value in vocabulary}
        needed = (Special.FRAME_SEP, Special.END_OF_TEXT) if self.form.closes_frames else (Special.END_OF_TEXT,)
        if lacking := [special.value for special in needed if special not in self._special.values()]:
            raise UserError(
                f"tokenizer: has no token {lacking[0]}, which format {format} is made of: take the tokenizer of a model "
                "that `remedy train` wrote"
            )
        # TRL logs a reward under this name.
        self.__name__ = "trace_" + "_".join(self.parts)

    def __call__(
        self,
        completion_ids: Sequence[Sequence[int]],
        trace: Sequence[str | None],
        answer_frames: Sequence[Sequence[int]],
        **columns: Any,
    ) -> list[float | None]:
        """Reward completions by token ids, since TRL strips special tokens from texts.

        Raises:
            ValueError: a true trace does not parse, or the lists differ in length.
        """
        return [
            None if true is None else self._reward(self.score(ids, true, frames))
            for ids, true, frames in zip(completion_ids, trace, answer_frames, strict=True)
        ]

    def score(self, ids: Sequence[int], true: str, answer_frames: Sequence[int]) -> TraceScore:
        """Compare a completion with the true trace."""
        return compare_traces(self._pieces(ids), pieces(true), self.form, answer_frames)

    def _reward(self, score: TraceScore) -> float:
        return sum(weight * PARTS[name](score) for name, weight in self.parts.items()) / sum(self.parts.values())

    def _pieces(self, ids: Sequence[int]) -> list[Piece]:
        """Split ids into texts and special tokens, up to the first end-of-text token."""
        parsed: list[Piece] = []
        text: list[int] = []
        for token in [*ids, None]:  # None: the end, at which the last text is decoded
            special = self._special.get(token) if token is not None else None
            if special is None and token is not None:
                text.append(token)
                continue
            if text:
                parsed.append(str(self.tokenizer.decode(text)))
                text = []
            if special is not None and special is not Special.PAD:
                parsed.append(special)
            if special is Special.END_OF_TEXT:
                break
        return parsed


def dataset(data: DataConfig, count: int, split: str = "train", streaming: bool = False) -> Dataset | IterableDataset:
    """Make a dataset of the first examples of a split.

    Columns: `prompt` and `trace` (special tokens spelled out), `answer`, `answer_frames` (counted from the end),
    `index`, `program`. Programs without a whole trace, or that spell a special token, are left out. `streaming` makes
    rows when read.

    Raises:
        UserError: the data has answers without traces, or too few programs (if streamed, when read).
    """
    if data.reveal.answer_only:
        raise UserError("reveal.answer_only: leaves no trace to reward: remove it")
    from datasets import Dataset, IterableDataset

    if streaming:
        return IterableDataset.from_generator(_rows, gen_kwargs={"data": data, "count": count, "split": split})
    return Dataset.from_list(list(_rows(data, count, split)))


def _rows(data: DataConfig, count: int, split: str) -> Iterator[dict[str, Any]]:
    for start in range(0, count, BATCH):
        for example in examples(data, split, range(start, min(start + BATCH, count))):
            if example.outcome != "ok" or spells_tokens(example.spans):
                continue
            context = [span for span in example.spans if span.role is Role.CONTEXT]
            written = [span for span in example.spans if span.role is not Role.CONTEXT]
            row = {"prompt": spans_text(context), "trace": spans_text(written), "answer": example.answer}
            facts = {"index": example.index, "program": example.program, "answer_frames": answer_indices(example)}
            yield {**row, **facts}
