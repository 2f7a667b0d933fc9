"""The plain loop: one token of each row at a time. It defines what greedy decoding is; other generators are held to it by tests, and
models are read so that carry nothing from token to token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from remedy.data_gen.context_window import Memory
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.window_examples import Window, windows
from remedy.eval.decoding.cursor import Cursor, Generated
from remedy.eval.generators.base import Done, Request, Writing, Written, cursor_of, ignore, predictions
from remedy.eval.generators.scores import most_likely
from remedy.models.context_length import ContextLimit
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer


class LoopGenerator:
    """Any reader, asked for one token of each row at a time. `batch_size`: examples written at a time."""

    name = "the model"
    context: ContextLimit | None = None

    def __init__(self, reader: ModelReader, tokenizer: TraceTokenizer, batch_size: int = 100) -> None:
        self.reader = reader
        self.tokenizer = tokenizer
        self.batch_size = batch_size

    @property
    def limit(self) -> int | None:
        return self.reader.limit

    def generate(self, asked: Sequence[Request], writing: Writing, done: Done = ignore) -> list[Written]:
        found: list[Written] = []
        for at in range(0, len(asked), self.batch_size):
            for written in self.batch(asked[at : at + self.batch_size], writing):
                done(len(found), written)
                found.append(written)
        return found

    def batch(self, asked: Sequence[Request], writing: Writing) -> Iterator[Written]:
        """Return what is written of examples that are read together."""
        if writing.fed == frozenset(Role):
            examples = [one.example for one in asked]
            return map(Written, predict(self.reader, self.tokenizer, examples, writing.predicted, writing.memory))
        return map(Written, decode_as(self.reader, self.tokenizer, asked, writing))

    def report(self) -> dict[str, Any]:
        return {}


def decode_as(
    reader: ModelReader, tokenizer: TraceTokenizer, asked: Sequence[Request], writing: Writing
) -> list[list[Generated]]:
    """Greedy decoding of a batch; per example, the runs the model wrote, in order.

    Prompts are read at once, each from its own first token; from there all examples step together and only fed tokens differ. A row
    that comes to the reader's limit is cut there. With a memory, a row that forgets a frame waits until all others have come to such a
    place, or to their end; then all that wait are read anew together.
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
    """Read the prompts and then token by token, until every row is complete or waits."""
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
    """Teacher forcing: the token the model would write in place of each token whose role is in `predicted`, given the true
    ones before it that its `memory` holds, as one run for every stretch of them."""
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
    """The true sequences in parallel passes, as many windows at once as there are examples: an example's number, one of its windows,
    and the logits (N, V) for the tokens that are predicted in it, up to its end: all but the very first token of an example."""
    found = [
        (number, window, example)
        for number, example in enumerate(examples)
        for window in windows(example.ids, example.roles, example.frames, memory, special_ids)
    ]
    for at in range(0, len(found), max(1, len(examples))):
        some = found[at : at + len(examples)]
        sequences = [[example.ids[place] for place in window.positions] for _, window, example in some]
        for (number, window, _), logits in zip(some, reader.parallel(sequences)):
            yield number, window, logits[max(window.start + window.shift, 1) - 1 : -1]
