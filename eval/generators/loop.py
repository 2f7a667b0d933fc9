"""Plain loop of greedy decoding: one token of each row at a time.

It defines the right result, which tests hold other generators to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from remedy.data_gen.memory import Memory
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.window_examples import Window, windows
from remedy.eval.decoding.cursor import Cursor, Generated
from remedy.eval.generators.base import DecodingOptions, ModelOutput, OnWritten, Request, cursor_of, ignore, predictions
from remedy.eval.generators.scores import most_likely
from remedy.models.context_length import ContextLimit
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer


class LoopGenerator:
    """Generator that reads one token of each row at a time.

    `batch_size`: in examples.
    """

    name = "the model"
    context: ContextLimit | None = None

    def __init__(self, reader: ModelReader, tokenizer: TraceTokenizer, batch_size: int = 100) -> None:
        self.reader = reader
        self.tokenizer = tokenizer
        self.batch_size = batch_size

    @property
    def limit(self) -> int | None:
        return self.reader.limit

    def generate(
        self, asked: Sequence[Request], writing: DecodingOptions, done: OnWritten = ignore
    ) -> list[ModelOutput]:
        found: list[ModelOutput] = []
        for at in range(0, len(asked), self.batch_size):
            for written in self.batch(asked[at : at + self.batch_size], writing):
                done(len(found), written)
                found.append(written)
        return found

    def batch(self, asked: Sequence[Request], writing: DecodingOptions) -> Iterator[ModelOutput]:
        """Yield the outputs for examples that are read together."""
        if writing.fed == frozenset(Role):
            examples = [one.example for one in asked]
            return map(ModelOutput, predict(self.reader, self.tokenizer, examples, writing.predicted, writing.memory))
        return map(ModelOutput, decode_as(self.reader, self.tokenizer, asked, writing))

    def report(self) -> dict[str, Any]:
        return {}


def decode_as(
    reader: ModelReader, tokenizer: TraceTokenizer, asked: Sequence[Request], writing: DecodingOptions
) -> list[list[Generated]]:
    """Decode a batch greedily; return the runs that the model wrote for each example.

    Prompts are read at once, then all examples step together. At the reader's limit a row is cut. A row that forgets a frame waits
    until all others wait or have ended; then these are read again together.
    """
    cursors = [cursor_of(one, writing, tokenizer, reader.limit) for one in asked]
    while waiting := [cursor for cursor in cursors if not cursor.done]:
        prompts = [(cursor, cursor.prompt()) for cursor in waiting]
        if not all(prompt for _, prompt in prompts):
            raise ValueError("nothing is fed before the first generated token: feed CONTEXT")
        reading = [(cursor, prompt) for cursor, prompt in prompts if not cursor.done]
        if reading:
            _step(reader, [cursor for cursor, _ in reading], [prompt for _, prompt in reading])
    return [cursor.generated for cursor in cursors]


def _step(reader: ModelReader, cursors: Sequence[Cursor], prompts: Sequence[Sequence[int]]) -> None:
    """Read the prompts, then token by token until every row is complete or waits."""
    logits = reader.prefill(prompts)
    while True:
        found = most_likely(logits)
        following = []
        for place, cursor in enumerate(cursors):
            token, logprob, _, cut = found.at(place, cursor.among)
            following.append(cursor.next_token(token, logprob, cut))
        if all(token is None for token in following):
            return
        logits = reader.step(following)


def predict(
    reader: ModelReader,
    tokenizer: TraceTokenizer,
    examples: Sequence[Encoded],
    predicted: frozenset[Role],
    memory: Memory | None = None,
) -> list[list[Generated]]:
    """Return the model's predictions in place of true tokens (teacher forcing).

    Each follows the true tokens that `memory` holds. Each stretch of `predicted` roles is one run.
    """
    ids = [[0] * len(example.ids) for example in examples]
    logprobs = [[0.0] * len(example.ids) for example in examples]
    # One at a time: float32 logits take room.
    for number, window, logits in _in_windows(reader, examples, memory, tokenizer.special_ids):
        places = slice(window.stop - len(logits), window.stop)
        scores = most_likely(logits)
        ids[number][places], logprobs[number][places] = scores.tokens, scores.logprobs
    found = []
    for number, example in enumerate(examples):
        found.append(predictions(example, predicted, ids[number], logprobs[number]))
    return found


def _in_windows(
    reader: ModelReader, examples: Sequence[Encoded], memory: Memory | None, special_ids: Mapping[Special, int]
) -> Iterator[tuple[int, Window, Tensor]]:
    """Yield an example's number, one of its windows, and the logits (N, V) in it.

    The logits predict the window's last N tokens: all but an example's very first. One pass reads as many windows as there are
    examples.
    """
    found = [
        (number, window, example)
        for number, example in enumerate(examples)
        for window in windows(example.ids, example.roles, example.frames, memory, special_ids)
    ]
    for at in range(0, len(found), max(1, len(examples))):
        some = found[at : at + len(examples)]
        sequences = [[example.ids[place] for place in window.places] for _, window, example in some]
        for (number, window, _), logits in zip(some, reader.parallel(sequences)):
            yield number, window, logits[max(window.start + window.shift, 1) - 1 : -1]
