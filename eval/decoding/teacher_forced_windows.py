"""A teacher-forced pass with a memory (`data.memory`), window by window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from remedy.data_gen.context_window import Memory
from remedy.data_gen.roles import Special
from remedy.data_gen.window_examples import Window, windows
from remedy.models.protocol import Reader
from remedy.models.tokenizer import Encoded


def read_in_windows(
    reader: Reader, examples: Sequence[Encoded], memory: Memory | None, special_ids: Mapping[Special, int]
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
        sequences = [[example.ids[place] for place in window.places] for _, window, example in some]
        for (number, window, _), logits in zip(some, reader.parallel(sequences)):
            yield number, window, logits[max(window.start + window.shift, 1) - 1 : -1]
