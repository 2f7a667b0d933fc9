"""What is guessed, and in how few calls a trace is written for it."""

import math
from collections.abc import Mapping

import pytest
import torch

from remedy.data_gen.roles import Role
from remedy.eval.decoding.forcings import FREE
from remedy.eval.generators.base import DecodingOptions, make_requests
from remedy.models.chunks import Chunk, Kind
from remedy.models.tokenizer import Encoded
from tests.eval.decoding.test_decoding import prepared
from tests.eval.scripted import FORCED, Scripted, drafting, erring

KINDS = (Kind.CROP, Kind.COPY)


@pytest.mark.parametrize(
    ("form", "name", "kind"),
    [
        *(("cwm", name, Kind.CROP) for name in FORCED),
        *(("symbolic", name, Kind.COPY) for name in FORCED),
        *(("repl", "free", kind) for kind in Kind),
    ],
)
def test_a_trace_that_a_model_gets_right_is_one_call(form: str, name: str, kind: Kind) -> None:
    tokenizer, truths = prepared(form, 4)
    for truth in truths:
        reader = Scripted(erring([truth], tokenizer.vocab_size, 0, 0.0, 2), tokenizer.vocab_size, kind)
        (written,) = drafting(reader, tokenizer, 1).generate(
            make_requests([truth]), DecodingOptions(FORCED[name], form == "symbolic")
        )
        assert reader.calls == 1
        assert [run.ids for run in written.runs] == [list(truth.ids[run.start : run.stop]) for run in written.runs]


@pytest.mark.parametrize("counted", [False, True], ids=["the same", "with a token that counts"])
@pytest.mark.parametrize("period", [1, 3, 40])
def test_a_model_that_goes_round_is_written_in_few_calls(period: int, counted: bool) -> None:
    """It leaves the truth and says the same tokens again and again, one of which may be another every time."""
    tokenizer, (truth,) = prepared("cwm", 1)
    kinds = sorted({token for token in truth.ids if not tokenizer.is_special(token)})
    begins, most = len(truth.ids) // 2, 600

    def following(read: list[int]) -> int:
        turn, at = divmod(len(read) - begins, period)
        if turn < 0:
            return truth.ids[len(read)]
        return kinds[turn % len(kinds)] if counted and at == 0 else kinds[-1 - at % 7]

    reader = Scripted(following, tokenizer.vocab_size, Kind.CROP)
    drafting(reader, tokenizer, 1).generate(make_requests([truth]), DecodingOptions(FREE, max_new_tokens=most))
    assert reader.calls <= (105 if counted else 20)


class Near(Scripted):
    """A model whose likeliest tokens are nearer than rounding at one place, where reading by chunks says another than a step does."""

    def __init__(self, truth: Encoded, place: int, vocabulary: int, kind: Kind) -> None:
        super().__init__(lambda read: (*truth.ids, 0)[len(read)], vocabulary, kind)
        self.place = place
        self.ids = truth.ids

    def extend(self, chunks: Mapping[int, Chunk]) -> dict[int, torch.Tensor]:
        found = super().extend(chunks)
        for row, chunk in chunks.items():
            first = self.held(row) + len(chunk.tokens) - chunk.guesses
            if len(chunk.tokens) > 1 and 0 <= self.place - first <= chunk.guesses:
                found[row][self.place - first, self.ids[self.place] - 1] = 9.0 + 1e-6
        return found

    def logits(self, read: list[int]) -> torch.Tensor:
        logits = super().logits(read)
        if len(read) == self.place:
            logits[self.ids[self.place] - 1] = 9.0 - 1e-6
        return logits


@pytest.mark.parametrize("kind", KINDS)
def test_a_near_tie_is_decided_by_a_step_of_one_token_and_counted(kind: Kind) -> None:
    tokenizer, (truth,) = prepared("repl", 1)
    start = truth.roles.count(int(Role.CONTEXT))
    for place in range(start + 1, len(truth.ids) - 1, 7):
        reader = Near(truth, place, tokenizer.vocab_size, kind)
        (written,) = drafting(reader, tokenizer, 1).generate(make_requests([truth]), DecodingOptions(FREE))
        assert written.runs[0].ids == list(truth.ids[start:])
        assert written.near_ties == 1


def test_no_more_rows_are_read_together_than_memory_has_room_for() -> None:
    tokenizer, truths = prepared("repl", 6)
    lengths = sorted(len(truth.ids) for truth in truths)
    model = erring(truths, tokenizer.vocab_size, 0, 0.05, 2)
    for memory, most in ((math.inf, 6), (sum(lengths[:3]) + 3.0, 3), (0.0, 1)):
        reader = Scripted(model, tokenizer.vocab_size, Kind.CROP)
        reader.memory, reader.overhead = memory, 10_000.0
        drafting(reader, tokenizer, 6).generate(make_requests(truths), DecodingOptions(FREE))
        assert reader.together == most


def test_a_model_that_does_not_end_stops_at_four_times_the_true_trace() -> None:
    tokenizer, (truth,) = prepared("cwm", 1)
    context = truth.roles.count(Role.CONTEXT)
    repeated = next(token for token in truth.ids if not tokenizer.is_special(token))
    (output,) = drafting(Scripted(lambda read: repeated, tokenizer.vocab_size), tokenizer, 1).generate(
        make_requests([truth]), DecodingOptions(FREE)
    )
    assert len(output.runs[-1].ids) == 4 * (len(truth.ids) - context) > 64
    most = [DecodingOptions(FREE, max_new_tokens=limit).most_new_tokens(truth) for limit in (None, 7)]
    assert most == [len(output.runs[-1].ids), 7]
    short = Encoded([9, 9], [int(Role.CONTEXT), int(Role.ACTION)], [0, 0], [False, False])
    long = Encoded([9] * 3000, [int(Role.ACTION)] * 3000, [0] * 3000, [False] * 3000)
    assert [DecodingOptions(FREE).most_new_tokens(example) for example in (short, long)] == [64, 4096]
