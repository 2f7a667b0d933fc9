"""Decoding with a memory: the model reads precisely what a row of training shows it, under every forcing, with every kind of model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch

from remedy.data_gen.config import DataConfig
from remedy.data_gen.memory import Memory
from remedy.data_gen.roles import Role
from remedy.data_gen.window_examples import longest_seen, window_tokens, windows
from remedy.eval.decoding.forcings import ACTION_FORCED, FREE, LINE_FORCED, STATE_FORCED, TEACHER_FORCED
from remedy.eval.generators.base import DecodingOptions
from remedy.eval.generators.loop import predict
from remedy.models.encoding import encoded_examples
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer
from remedy.train.data import as_tokens
from tests.eval.decoding.test_decoding import decode, small_model
from tests.tiny_models import tiny_model, tokenizer_for

FORMS: dict[str, dict[str, Any]] = {
    "cwm_numbered": {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": [2, 3], "answer": "none"}},
    "symbolic": {"task": {"kind": "permutation", "n": 4, "moves": "full", "length": [3, 7]}, "reveal": {"spacing": 2}},
    "cwm_numbers": {
        "task": {"kind": "composition", "depth": 1, "functions": ["recursive_reverse"], "input_length": [2, 2]}
    },
}
ONE = Memory(frames=1)
MEMORIES = dict.fromkeys(FORMS, Memory(frames=2)) | {"cwm_numbers": Memory(frames=1, open_calls=True)}
FORCINGS = {"free": FREE, "line": LINE_FORCED, "action": ACTION_FORCED, "state": STATE_FORCED}


def prepared(form: str, count: int = 2) -> tuple[TraceTokenizer, list[Encoded]]:
    data = DataConfig.model_validate({**FORMS[form], "format": form})
    tokenizer = tokenizer_for(data)
    return tokenizer, [encoded for _, encoded in encoded_examples(data, tokenizer, "test", range(count))]


def model_of(name: str, tokenizer: TraceTokenizer) -> Any:
    family = name in ("llama", "gpt2")
    return tiny_model(name, tokenizer.vocab_size) if family else small_model(name, tokenizer)


def training_rows(truth: Encoded, memory: Memory, tokenizer: TraceTokenizer) -> list[tuple[list[int], list[int]]]:
    """Ids of the rows that training makes of an example, and the places in each that are predicted."""
    tokens = as_tokens(*truth)
    rows = [window_tokens(tokens, window) for window in windows(*truth[:3], memory, tokenizer.special_ids)]
    return [(row.ids.tolist(), [at for at, role in enumerate(row.roles) if role != Role.CONTEXT]) for row in rows]


class Puppet:
    """Writes the truth, and keeps what a model would have said at every place, by all that was read there."""

    limit: int | None = None

    def __init__(
        self, reader: ModelReader, truths: Sequence[Encoded], memory: Memory, tokenizer: TraceTokenizer
    ) -> None:
        self.reader = reader
        self.rows = [ids for truth in truths for ids, _ in training_rows(truth, memory, tokenizer)]
        self.said: dict[tuple[int, ...], torch.Tensor] = {}
        self.prefilled = 0
        self._read: list[list[int]] = []

    def prefill(self, prompts: Sequence[Sequence[int]]) -> torch.Tensor:
        self._read = [list(prompt) for prompt in prompts]
        self.prefilled += sum(map(len, prompts))
        return self._answer(self.reader.prefill(prompts), prompts)

    def step(self, tokens: Sequence[int | None]) -> torch.Tensor:
        for read, token in zip(self._read, tokens):
            read += [] if token is None else [token]
        return self._answer(self.reader.step(tokens), tokens)

    def parallel(self, sequences: Sequence[Sequence[int]]) -> Iterator[torch.Tensor]:
        return self.reader.parallel(sequences)

    def _answer(self, logits: torch.Tensor, moved: Sequence[Any]) -> torch.Tensor:
        following = []
        for read, row, last in zip(self._read, logits, moved):
            known = [ids for ids in self.rows if ids[: len(read)] == read]
            assert known, "it reads what no row of training shows"
            if last is not None:
                self.said[tuple(read)] = row
            following.append(next((ids[len(read)] for ids in known if len(ids) > len(read)), 0))
        return torch.nn.functional.one_hot(torch.tensor(following), logits.shape[-1]).float()


@pytest.mark.parametrize("forcing", FORCINGS)
@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("cwm_numbered", "llama"),
        ("cwm_numbers", "attention"),
        ("symbolic", "deltanet"),
        ("symbolic", "mamba"),
        ("symbolic", "gpt2"),
    ],
)
@torch.no_grad()
def test_the_model_says_in_decoding_what_it_says_in_a_row_of_training(name: str, form: str, forcing: str) -> None:
    fed, memory = FORCINGS[forcing], MEMORIES[form]
    tokenizer, truths = prepared(form)
    model = model_of(name, tokenizer)
    puppet = Puppet(ModelReader(model), truths, memory, tokenizer)
    decoded = decode(puppet, tokenizer, truths, fed, exact=form == "symbolic", memory=memory)
    rows = [row for truth in truths for row in training_rows(truth, memory, tokenizer)]
    assert len(rows) > 2 * len(truths)
    for truth, runs in zip(truths, decoded):
        assert [run.ids for run in runs] == [truth.ids[run.start : run.stop] for run in runs]
        assert all(run.complete for run in runs)
        written = {at for run in runs for at in range(run.start, run.stop)}
        cut = windows(*truth[:3], memory, tokenizer.special_ids)
        for window, (ids, predicted) in zip(cut, training_rows(truth, memory, tokenizer), strict=True):
            logits = model(torch.tensor([ids])).logits[0]
            for place in predicted:
                if place - window.shift in written:
                    assert torch.allclose(puppet.said[tuple(ids[:place])], logits[place - 1], atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
@torch.no_grad()
def test_teacher_forcing_predicts_each_token_from_its_window(form: str) -> None:
    tokenizer, truths = prepared(form)
    model = model_of("deltanet", tokenizer)
    memory = MEMORIES[form]
    options = DecodingOptions(
        TEACHER_FORCED, form == "symbolic", predicted=TEACHER_FORCED - {Role.CONTEXT}, memory=memory
    )
    for truth, (run,) in zip(truths, predict(ModelReader(model), tokenizer, truths, options)):
        expected: list[int] = []
        for ids, predicted in training_rows(truth, memory, tokenizer):
            best = model(torch.tensor([ids])).logits[0].argmax(-1).tolist()
            expected += [best[place - 1] for place in predicted]
        assert run.ids == expected


@torch.no_grad()
def test_a_limit_of_the_model_is_one_of_what_is_seen_at_once() -> None:
    tokenizer, truths = prepared("symbolic", 6)
    model = model_of("llama", tokenizer)
    longest = max(longest_seen(*truth[:3], ONE, {}) for truth in truths)
    assert longest < max(len(truth.ids) for truth in truths)

    def cut(limit: int, memory: Memory | None) -> int:
        puppet = Puppet(ModelReader(model), truths, memory or Memory(frames=1000), tokenizer)
        puppet.limit = limit
        decoded = decode(puppet, tokenizer, truths, ACTION_FORCED, exact=True, memory=memory)
        return sum(not run.complete for runs in decoded for run in runs)

    assert cut(longest, ONE) == 0
    assert cut(longest, None) > 0
    assert cut(longest - 4, ONE) > 0
