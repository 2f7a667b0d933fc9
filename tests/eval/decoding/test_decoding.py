"""Forced decoding: what is fed, what the model writes and how surely, in batches as alone, under every mixer."""

import math
from collections.abc import Iterator, Sequence

import pytest
import torch

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.memory import Memory
from remedy.data_gen.roles import Role
from remedy.eval.decoding.cursor import Generated
from remedy.eval.decoding.forcings import ACTION_FORCED, FREE, LINE_FORCED, STATE_FORCED, TEACHER_FORCED
from remedy.eval.generators.base import DecodingOptions, make_requests
from remedy.eval.generators.loop import decode_as, predict
from remedy.models.cache import Footprint
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer
from tests.tiny_models import small_decoder, tokenizer_for

FORMS = {
    "cwm": {"task": {"kind": "composition", "depth": 1, "functions": ["mirror_str", "repeat_str"]}},
    "repl": {"task": {"kind": "permutation", "n": 3, "length": [2, 6]}, "format": "repl", "reveal": {"spacing": 2}},
    "symbolic": {
        "task": {"kind": "permutation", "n": 3, "length": [2, 6]},
        "format": "symbolic",
        "reveal": {"spacing": 2},
    },
}


class Reciter:
    """Stands for a model that knows the truths by heart: it continues each row as its truth does from where the row has
    come to, whatever was written, except that at the positions in `mistakes` it writes `wrong` instead."""

    limit: int | None = None
    footprint = Footprint()

    def __init__(
        self, truths: list[Encoded], vocab: int, mistakes: dict[int, int] | None = None, wrong: int = 0
    ) -> None:
        self.truths, self.vocab, self.mistakes, self.wrong = truths, vocab, mistakes or {}, wrong
        self.read: list[int] = []

    def prefill(self, prompts: Sequence[Sequence[int]]) -> torch.Tensor:
        self.read = [len(prompt) for prompt in prompts]
        return torch.stack([self.logits(row, read) for row, read in enumerate(self.read)])

    def step(self, tokens: Sequence[int | None]) -> torch.Tensor:
        self.read = [read + (token is not None) for read, token in zip(self.read, tokens)]
        return torch.stack([self.logits(row, read) for row, read in enumerate(self.read)])

    def available(self) -> float:
        return math.inf

    def parallel(self, sequences: Sequence[Sequence[int]]) -> Iterator[torch.Tensor]:
        for row, sequence in enumerate(sequences):
            yield torch.stack([self.logits(row, read) for read in range(1, len(sequence) + 1)])

    def logits(self, row: int, position: int) -> torch.Tensor:
        ids = self.truths[row].ids
        token = ids[position] if position < len(ids) else 0
        logits = torch.zeros(self.vocab)
        logits[self.wrong if self.mistakes.get(row) == position else token] = 1
        return logits


def prepared(form: str, count: int = 4) -> tuple[TraceTokenizer, list[Encoded]]:
    data = DataConfig.model_validate(FORMS[form])
    tokenizer = tokenizer_for(data)
    return tokenizer, [tokenizer.encode(one.spans) for one in examples(data, "test", range(count))]


def small_model(mixer: str, tokenizer: TraceTokenizer) -> DecoderForCausalLM:
    return small_decoder(tokenizer, [mixer], 32, seed=1)


def decode(
    reader: ModelReader,
    tokenizer: TraceTokenizer,
    examples: Sequence[Encoded],
    fed: frozenset[Role],
    *,
    exact: bool = False,
    max_new_tokens: int = 4096,
    memory: Memory | None = None,
) -> list[list[Generated]]:
    return decode_as(
        reader, tokenizer, make_requests(examples), DecodingOptions(fed, exact, max_new_tokens, memory=memory)
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "fed", [FREE, LINE_FORCED, ACTION_FORCED, STATE_FORCED], ids=["free", "line", "action", "state"]
)
def test_a_model_that_knows_the_truth_writes_it(form: str, fed: frozenset[Role]) -> None:
    tokenizer, truths = prepared(form)
    decoded = decode(Reciter(truths, tokenizer.vocab_size), tokenizer, truths, fed, exact=form == "symbolic")
    for truth, runs in zip(truths, decoded):
        assert [run.ids for run in runs] == [list(truth.ids[run.start : run.stop]) for run in runs]
        assert all(run.complete for run in runs)
        assert sum(len(run.ids) for run in runs) == sum(Role(role) not in fed for role in truth.roles)


@torch.no_grad()
@pytest.mark.parametrize("fed", [FREE, ACTION_FORCED, TEACHER_FORCED], ids=["free", "action", "teacher"])
def test_every_token_has_the_log_probability_it_was_written_with(fed: frozenset[Role]) -> None:
    tokenizer, truths = prepared("repl", 2)
    model = small_model("gru", tokenizer)
    reader = ModelReader(model)
    if fed == TEACHER_FORCED:
        decoded = predict(
            reader, tokenizer, truths, DecodingOptions(fed, predicted=frozenset({Role.STATE, Role.VALUE}))
        )
    else:
        decoded = decode(reader, tokenizer, truths, fed, max_new_tokens=30)
    for truth, runs in zip(truths, decoded):
        read = list(truth.ids)
        if fed != TEACHER_FORCED:
            for run in reversed(runs):
                read[run.start : run.stop] = run.ids
        logprobs = model(torch.tensor([read])).logits[0].log_softmax(-1)
        shift = 0
        for run in runs:
            at = run.start + shift
            expected = [float(logprobs[at + i - 1, token]) for i, token in enumerate(run.ids)]
            assert run.logprobs == pytest.approx(expected, abs=1e-4)
            shift += 0 if fed == TEACHER_FORCED else len(run.ids) - (run.stop - run.start)
