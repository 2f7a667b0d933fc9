"""Plain loop of greedy decoding: one token of each row at a time.

It defines the right result, which tests hold other generators to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from remedy.data_gen.memory import Memory
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.window_examples import Window, windows
from remedy.eval.decoding.cursor import Cursor, Generated
from remedy.eval.generators.base import (
    DecodingOptions,
    ModelOutput,
    OnWritten,
    Request,
    cursor_of,
    ignore_output,
    predictions,
)
from remedy.eval.generators.other_cuts import other_cuts, write_on
from remedy.eval.generators.scores import most_likely
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer


class LoopGenerator:
    """Generator that reads one token of each row at a time.

    `batch_size`: in examples.
    """

    def __init__(self, reader: ModelReader, tokenizer: TraceTokenizer, batch_size: int = 100) -> None:
        self.reader, self.limit = reader, reader.limit
        self.tokenizer = tokenizer
        self.batch_size = batch_size

    def generate(
        self, requests: Sequence[Request], options: DecodingOptions, on_written: OnWritten = ignore_output
    ) -> list[ModelOutput]:
        outputs: list[ModelOutput] = []
        for start in range(0, len(requests), self.batch_size):
            for output in self.batch(requests[start : start + self.batch_size], options):
                on_written(len(outputs), output)
                outputs.append(output)
        return outputs

    def batch(self, requests: Sequence[Request], options: DecodingOptions) -> Iterator[ModelOutput]:
        """Yield the outputs for examples that are read together."""
        if options.fed == frozenset(Role):
            examples = [request.example for request in requests]
            return map(ModelOutput, predict(self.reader, self.tokenizer, examples, options))
        return map(ModelOutput, decode_as(self.reader, self.tokenizer, requests, options))


def decode_as(
    reader: ModelReader, tokenizer: TraceTokenizer, requests: Sequence[Request], options: DecodingOptions
) -> list[list[Generated]]:
    """Decode a batch greedily; return the runs that the model wrote for each example.

    Prompts are read at once, then all examples step together. At the reader's limit a row is cut. A row that forgets a frame waits
    until all others wait or have ended; then these are read again together.
    """
    cursors = [cursor_of(request, options, tokenizer, reader.limit) for request in requests]
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
        scores = most_likely(logits)
        following = []
        for index, cursor in enumerate(cursors):
            token, logprob, _, cut = scores.prediction(index, cursor.choices)
            following.append(cursor.next_token(token, logprob, cut))
        if all(token is None for token in following):
            return
        logits = reader.step(following)


def predict(
    reader: ModelReader, tokenizer: TraceTokenizer, examples: Sequence[Encoded], options: DecodingOptions
) -> list[list[Generated]]:
    """Return the model's predictions in place of true tokens (teacher forcing).

    Each follows the true tokens that `options.memory` holds. Each stretch of predicted roles is one run. A part of a frame whose
    text is right in other tokens has the true ones.
    """
    ids = [[0] * len(example.ids) for example in examples]
    logprobs = [[0.0] * len(example.ids) for example in examples]
    seen: list[list[Window]] = [[] for _ in examples]
    # One window at a time, as float32 logits need much memory.
    for number, window, logits in _in_windows(reader, examples, options.memory, tokenizer.special_ids):
        positions = slice(window.stop - len(logits), window.stop)
        scores = most_likely(logits)
        ids[number][positions], logprobs[number][positions] = scores.tokens, scores.logprobs
        seen[number].append(window)
    cuts = [
        (number, cut)
        for number, example in enumerate(examples)
        for cut in other_cuts(example, options, ids[number], tokenizer)
    ]
    prompted = [(cut, prompt) for number, cut in cuts if (prompt := cut.prompt(seen[number], reader.limit))]
    write_on(reader, prompted, len(examples))
    for number, cut in cuts:
        cut.settle(ids[number], logprobs[number])
    return [
        predictions(example, options.predicted, ids[number], logprobs[number])
        for number, example in enumerate(examples)
    ]


def _in_windows(
    reader: ModelReader, examples: Sequence[Encoded], memory: Memory | None, special_ids: Mapping[Special, int]
) -> Iterator[tuple[int, Window, Tensor]]:
    """Yield an example's number, one of its windows, and the logits (N, V) in it.

    The logits predict the window's last N tokens: all but an example's very first. One pass reads as many windows as there are
    examples.
    """
    numbered_windows = [
        (number, window, example)
        for number, example in enumerate(examples)
        for window in windows(example.ids, example.roles, example.frames, memory, special_ids)
    ]
    for start in range(0, len(numbered_windows), max(1, len(examples))):
        batch = numbered_windows[start : start + len(examples)]
        sequences = [[example.ids[position] for position in window.positions] for _, window, example in batch]
        for (number, window, _), logits in zip(batch, reader.parallel(sequences)):
            yield number, window, logits[max(window.start + window.shift, 1) - 1 : -1]
