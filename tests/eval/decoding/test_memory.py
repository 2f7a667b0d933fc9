"""Decoding with a memory: the model reads precisely what a row of training shows it, under every forcing, with every kind of model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch

from remedy.data_gen.config import DataConfig
from remedy.data_gen.context_window import Memory
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.window_examples import longest_seen, seen, windows
from remedy.eval.decoding.forcings import ACTION_FORCED, FREE, LINE_FORCED, STATE_FORCED
from remedy.eval.generators.loop import predict
from remedy.eval.scoring.common import Decoded, read_tokens
from remedy.models.encoding import encoded_examples
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends import TOKENIZERS
from remedy.train.data import as_tokens
from tests.eval.decoding.test_decoding import assert_same, decode, small_model
from tests.tiny_models import tiny_model

FORMS: dict[str, dict[str, Any]] = {
    "cwm_numbered": {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": [2, 3], "answer": "none"}},
    "symbolic": {"task": {"kind": "permutation", "n": 4, "moves": "full", "length": [3, 7]}, "reveal": {"spacing": 2}},
    "cwm_numbers": {
        "task": {"kind": "composition", "depth": 1, "functions": ["recursive_reverse"], "input_length": [2, 2]}
    },
}
PERMUTATIONS = ("cwm_numbered", "symbolic")
ONE = Memory(frames=1)
MEMORIES = dict.fromkeys(FORMS, Memory(frames=2)) | {"cwm_numbers": Memory(frames=1, open_calls=True)}
FORCINGS = {"free": FREE, "line": LINE_FORCED, "action": ACTION_FORCED, "state": STATE_FORCED}


def prepared(form: str, count: int = 2) -> tuple[TraceTokenizer, list[Encoded]]:
    data = DataConfig.model_validate({**FORMS[form], "format": form})
    kind = "symbols" if form == "symbolic" else "chars"
    tokenizer = build_tokenizer(TOKENIZERS[kind].model_validate({"kind": kind}), data)
    return tokenizer, [encoded for _, encoded in encoded_examples(data, tokenizer, "test", range(count))]


def model_of(name: str, tokenizer: TraceTokenizer) -> Any:
    family = name in ("llama", "gpt2")
    return tiny_model(name, tokenizer.vocab_size) if family else small_model(name, tokenizer)


def training_rows(truth: Encoded, memory: Memory, tokenizer: TraceTokenizer) -> list[tuple[list[int], list[int]]]:
    """Ids of the rows that training makes of an example, and the places in each that are predicted."""
    tokens = as_tokens(*truth)
    rows = [seen(tokens, window) for window in windows(*truth[:3], memory, tokenizer.special_ids)]
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
    everything, memory = frozenset(Role) - {Role.CONTEXT}, MEMORIES[form]
    for truth, (run,) in zip(truths, predict(ModelReader(model), tokenizer, truths, everything, memory)):
        expected: list[int] = []
        for ids, predicted in training_rows(truth, memory, tokenizer):
            best = model(torch.tensor([ids])).logits[0].argmax(-1).tolist()
            expected += [best[place - 1] for place in predicted]
        assert run.ids == expected


class Chopper(ModelReader):
    """A model that closes a frame wherever that is among its likelier tokens, so that an untrained one writes frames too."""

    def __init__(self, model: Any, close: int) -> None:
        super().__init__(model)
        self.close: int | None = None
        assert self.kind  # which is found without it
        self.close = close

    def prefill(self, prompts: Sequence[Sequence[int]]) -> torch.Tensor:
        return self.pushed(super().prefill(prompts))

    def step(self, tokens: Sequence[int | None]) -> torch.Tensor:
        return self.pushed(super().step(tokens))

    def pushed(self, logits: torch.Tensor) -> torch.Tensor:
        if self.close is None:
            return logits
        found = logits.clone()
        closes = logits[:, self.close] > logits.mean(-1) + logits.std(-1)
        found[closes, self.close] += 10 * logits.std(-1)[closes]
        return found


@torch.no_grad()
def test_frames_that_the_model_closes_itself_are_forgotten() -> None:
    tokenizer, truths = prepared("cwm_numbered")
    model = tiny_model("llama", tokenizer.vocab_size)
    close = tokenizer.special_ids[Special.FRAME_SEP]
    reader = Chopper(model, close)
    decoded = decode(reader, tokenizer, truths, FREE, max_new_tokens=40, memory=ONE)
    assert any(run.ids.count(close) > 3 for (run,) in decoded)
    for truth, (run,) in zip(truths, decoded):
        context = truth.ids[: run.start]
        frames: list[list[int]] = [[]]
        for token, logprob in zip(run.ids, run.logprobs):
            read = [*context, *(one for frame in frames[-2:] for one in frame)]
            logits = reader.pushed(model(torch.tensor([read])).logits[:, -1])[0]
            assert int(logits.argmax()) == token
            assert float(logits.log_softmax(-1)[token]) == pytest.approx(logprob, abs=1e-4)
            frames[-1].append(token)
            frames += [[]] if token == close else []
        assert_same([run], decode(reader, tokenizer, [truth], FREE, max_new_tokens=40, memory=ONE)[0])


@torch.no_grad()
def test_forced_frames_are_the_true_ones_whatever_the_model_writes_in_them() -> None:
    tokenizer, truths = prepared("cwm_numbered")
    model = small_model("attention", tokenizer)
    for fed in (ACTION_FORCED, LINE_FORCED):
        for truth, runs in zip(truths, decode(ModelReader(model), tokenizer, truths, fed, memory=ONE)):
            order = list(dict.fromkeys(truth.frames))
            read: dict[int, list[int]] = {frame: [] for frame in order}
            end = 0
            for run in runs:
                for at in range(end, run.start):
                    read[truth.frames[at]].append(truth.ids[at])
                place = order.index(truth.frames[run.start])
                frames = [order[0], *order[max(1, place - 1) : place + 1]]
                ids = [one for frame in frames for one in read[frame]]
                best = model(torch.tensor([[*ids, *run.ids]])).logits[0].argmax(-1).tolist()
                assert best[len(ids) - 1 : -1] == run.ids
                read[truth.frames[run.start]] += run.ids
                end = run.stop


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


class Counting:
    """Counts what a model reads."""

    def __init__(self, reader: ModelReader) -> None:
        self.reader, self.limit, self.read, self.last = reader, reader.limit, 0, 0

    def prefill(self, prompts: Sequence[Sequence[int]]) -> torch.Tensor:
        self.last = sum(map(len, prompts))
        self.read += self.last
        return self.reader.prefill(prompts)

    def step(self, tokens: Sequence[int | None]) -> torch.Tensor:
        self.read += sum(token is not None for token in tokens)
        return self.reader.step(tokens)


@pytest.mark.parametrize("memory", [None, ONE, Memory(frames=1, open_calls=True)])
@torch.no_grad()
def test_tokens_read_are_those_of_the_plain_loop(memory: Memory | None) -> None:
    """Whatever a model writes; the token with which a frame is forgotten is read anew, and what is left after the last for nothing."""
    data = DataConfig.model_validate({**FORMS["cwm_numbered"], "format": "cwm_numbered", "memory": memory})
    tokenizer, _ = prepared("cwm_numbered")
    [(example, truth)] = encoded_examples(data, tokenizer, "test", [0])
    close = tokenizer.special_ids[Special.FRAME_SEP]
    counting = Counting(Chopper(tiny_model("llama", tokenizer.vocab_size), close))
    [[run]] = decode(counting, tokenizer, [truth], FREE, max_new_tokens=60, memory=memory)  # type: ignore[arg-type]
    forgotten = 0 if memory is None else run.ids.count(close) - 1
    assert forgotten > 3 or memory is None
    in_vain = counting.last if forgotten and run.ids[-1] == close else 0
    decoded = Decoded(example, truth, [run], FREE, data)
    assert read_tokens(decoded, tokenizer) == counting.read - in_vain + forgotten
    if memory is None:
        assert counting.read == run.start + len(run.ids)
