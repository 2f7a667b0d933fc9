"""Constraints on a server: held to a grammar of each choice, its model writes what is written here."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
import torch
from torch import Tensor, nn

from remedy.data_gen.memory import Memory
from remedy.data_gen.roles import Role
from remedy.eval.decoding.constraints import starts_of
from remedy.eval.generators.backend import Backend
from remedy.eval.generators.base import DecodingOptions, ModelOutput, make_requests
from remedy.eval.generators.loop import LoopGenerator
from remedy.eval.generators.served import ServedGenerator
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded
from remedy.settings import UserError
from tests.contract_server import ContractServer
from tests.eval.constrained_runs import CHARACTERS, CONSTRAINED, Prepared, branching
from tests.lark import tokens_of

SIZE = CHARACTERS.vocab_size
OPEN_CALLS = {"frames": 1, "open_calls": True}


class Whimsical(nn.Module):
    """A causal language model whose logits depend on the last tokens it has read alone; most of the time a truth's is the likeliest."""

    def __init__(self, truths: Sequence[Sequence[int]], rate: float, seed: int) -> None:
        super().__init__()
        self.config = SimpleNamespace(model_type="whimsical")
        self.embedding = nn.Embedding(SIZE, 1)
        self.following = {tuple(ids[max(0, at - 3) : at]): ids[at] for ids in truths for at in range(1, len(ids))}
        self.rate, self.seed = rate, seed
        self.known: dict[tuple[int, ...], Tensor] = {}

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embedding

    def get_output_embeddings(self) -> None:
        return None

    def forward(self, input_ids: Tensor) -> SimpleNamespace:
        rows = [
            [self.after(tuple(ids[max(0, at - 2) : at + 1])) for at in range(len(ids))] for ids in input_ids.tolist()
        ]
        return SimpleNamespace(logits=torch.stack([torch.stack(row) for row in rows]), loss=None)

    def after(self, read: tuple[int, ...]) -> Tensor:
        if read not in self.known:
            seed = zlib.crc32(repr((self.seed, read)).encode())
            logits, draws = torch.rand(SIZE, generator=torch.Generator().manual_seed(seed)), random.Random(seed)
            logits[draws.randrange(SIZE) if draws.random() < self.rate else self.following.get(read, 0)] += 3
            self.known[read] = logits
        return self.known[read]


def same(mine: ModelOutput, other: ModelOutput) -> bool:
    """The tokens are the same, and how each came about, but for what a server does not tell."""
    (one,), (two,) = mine.runs, other.runs
    told = [(origin.certain, origin.choices) for origin in one.origins] == [
        (origin.certain, origin.choices) for origin in two.origins
    ]
    return (one.ids, one.complete) == (two.ids, two.complete) and told


def assert_served_as_here(
    made: Prepared, model: Any, asked: DecodingOptions, truths: Sequence[Encoded] = ()
) -> tuple[list[ModelOutput], ContractServer]:
    """A server's model writes what the plain loop does. What was written, and the server."""
    tokens_of(CHARACTERS)
    starts = starts_of(asked.constraint, made.examples, made.data, CHARACTERS)
    expected = LoopGenerator(ModelReader(model), CHARACTERS).generate(make_requests(made.truths, starts), asked)
    server = ContractServer(model, CHARACTERS)
    with server.running() as url:
        served = ServedGenerator(Backend(url=url, model="tiny", patience=20), CHARACTERS)
        found = served.generate(make_requests(truths or made.truths, starts), asked)
    assert all(map(same, found, expected))
    for one in found:
        for origin, logprob in zip(one.runs[0].origins, one.runs[0].logprobs):
            assert (origin.changed is None) == (origin.choices > 0)
            assert (origin.cut != origin.cut) == (logprob != logprob) == (origin.choices > 0)
    return found, server


def test_a_server_that_does_not_hold_to_grammars_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = branching(tmp_path)
    model: Any = Whimsical([truth.ids for truth in made.truths], 1.0, 1)
    server = ContractServer(model, CHARACTERS, guided=False)
    with server.running() as url:
        served = ServedGenerator(Backend(url=url, model="tiny", patience=0.1), CHARACTERS)
        begin = server.posts
        with pytest.raises(UserError, match="does not hold a model to a grammar of token ids") as error:
            served.generate(make_requests(made.truths, made.starts), CONSTRAINED)
        assert "--structured-outputs-config.backend guidance" in str(error.value)
        assert server.posts == begin + 1
        monkeypatch.setattr("remedy.eval.generators.served.try_grammar", AsyncMock())
        with pytest.raises(UserError, match="the server did not hold to the grammar: it wrote token") as error:
            served.generate(make_requests(made.truths, made.starts), CONSTRAINED)
        assert str(error.value).startswith(url)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("memory", "known"), [(OPEN_CALLS, True), (None, False)])
def test_a_server_writes_what_is_written_here(tmp_path: Path, memory: Any, known: bool) -> None:
    """Whatever the model writes, and whether there is a truth to be scored or not: values are written freely, and what is chosen
    among goes with the request."""
    made = branching(tmp_path)
    chosen, prompts = 0, [] if known else [prompt_of(truth) for truth in made.truths]
    for seed, (rate, most) in enumerate([(0.0, 400), (0.05, 150), (0.3, 150), (1.0, 40)]):
        model = Whimsical([truth.ids for truth in made.truths], rate, seed)
        seen = memory and Memory.model_validate(memory)
        asked = CONSTRAINED._replace(max_new_tokens=most, memory=seen)
        found, server = assert_served_as_here(made, model, asked, prompts)
        chosen += sum(origin.choices > 0 for one in found for origin in one.runs[0].origins)
        sent = [one.get("structured_outputs", {}).get("grammar", "") for one in server.contents]
        _, *grammars = filter(None, sent)
        assert all(re.fullmatch(r"%llguidance {}\nstart: first rest\n(.*\n)+rest: .*\n", one) for one in grammars)
    assert chosen >= 5


def prompt_of(truth: Encoded) -> Encoded:
    """The same without what is asked for, but for an end."""
    kept = [at for at, role in enumerate(truth.roles) if role == Role.CONTEXT]
    return Encoded(*([column[at] for at in [*kept, -1]] for column in truth))
