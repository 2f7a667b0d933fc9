"""A teacher-forced pass with a memory of k frames (`data.memory`), window by window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from remedy.data_gen.windows import Window, windows
from remedy.models.protocol import Reader
from remedy.models.tokenizer import Encoded


def read_in_windows(
    reader: Reader, examples: Sequence[Encoded], memory: int | None
) -> Iterator[tuple[int, Window, Tensor]]:
    """The true sequences in parallel passes, as many windows at once as there are examples: an example's number, one of its windows,
    and the logits (N, V) for the tokens that are predicted in it, up to its end: all but the very first token of an example."""
    found = [
        (number, window, example)
        for number, example in enumerate(examples)
        for window in windows(example.roles, example.frames, memory)
    ]
    for at in range(0, len(found), max(1, len(examples))):
        some = found[at : at + len(examples)]
        sequences = [[*e.ids[: w.context], *e.ids[w.begin : w.stop]] for _, w, e in some]
        for (number, window, _), logits in zip(some, reader.parallel(sequences)):
            yield number, window, logits[max(window.start + window.shift, 1) - 1 : -1]
