"""Guessing and judging in parallel writes what the plain loop writes, for any model, forcing, batch and limit."""

import math
import random
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from remedy.eval.decoding.forcings import ACTION_FORCED, FREE
from remedy.eval.generators.base import DecodingOptions, make_requests
from remedy.eval.generators.loop import LoopGenerator
from remedy.eval.generators.speculative import LocalGenerator
from remedy.models.chunks import Chunk, Kind
from remedy.models.mixers import MIXERS
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer
from tests.eval.decoding.test_decoding import prepared, small_model
from tests.eval.scripted import FORCED, MEMORIES, Scripted, drafting, erring, runs
from tests.tiny_models import tiny_model


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("name", FORCED)
@pytest.mark.parametrize("form", ["cwm", "symbolic"])
def test_whatever_a_model_writes_is_what_the_plain_loop_writes(form: str, name: str, kind: Kind) -> None:
    """Departing at once, late, often or never, for good or to come back, ending early or never, in runs of other lengths."""
    if form == "symbolic" and name == "line":
        pytest.skip("no events")
    tokenizer, truths = prepared(form, 3 if form == "cwm" else 5)
    draws = random.Random(f"{form} {name} {kind}")
    for seed in range(2 if form == "cwm" else 12):
        limit = draws.choice([None, None, max(len(truth.ids) for truth in truths) - draws.randrange(30)])
        memory = draws.choice(MEMORIES[: 5 if form == "cwm" else 4])
        options = DecodingOptions(FORCED[name], form == "symbolic", draws.choice([3, 40, 150]), frozenset(), memory)
        rate = draws.choice([0.0, 0.01, 0.1, 0.5, 1.0])
        model = erring(truths, tokenizer.vocab_size, seed, rate, draws.choice([1, 2, 5, 1000]))
        reader = Scripted(model, tokenizer.vocab_size, kind, limit)
        fitting = [truth for truth in truths if limit is None or len(truth.ids) <= limit]
        if not fitting:
            continue
        expected = LoopGenerator(reader, tokenizer).generate(make_requests(fitting), options)  # type: ignore[arg-type]
        batch = draws.choice([1, 2, 5])
        found = drafting(reader, tokenizer, batch).generate(make_requests(fitting), options)
        assert runs(found) == runs(expected), (seed, rate, batch, memory)


def assert_written_alike(
    model: Any, tokenizer: TraceTokenizer, truths: list[Encoded], options: DecodingOptions, batch: int
) -> None:
    generator = LocalGenerator(ModelReader(model), tokenizer, batch)
    expected = LoopGenerator(generator.reader, tokenizer).generate(make_requests(truths), options)
    found = generator.generate(make_requests(truths), options)
    assert runs(found) == runs(expected)
    for one, other in zip(found, expected):
        for mine, true in zip(one.runs, other.runs):
            assert mine.logprobs == pytest.approx(true.logprobs, abs=1e-4)


FAMILIES = ("llama", "gemma3_text", "gpt2", "qwen3_next", "mamba2", "rwkv")


@pytest.mark.parametrize("name", [*MIXERS, *FAMILIES])
@torch.no_grad()
def test_every_model_writes_what_the_plain_loop_writes(name: str) -> None:
    tokenizer, truths = prepared("symbolic", 4)
    model = tiny_model(name, tokenizer.vocab_size) if name in FAMILIES else small_model(name, tokenizer)
    for fed, batch in ((FREE, 4), (ACTION_FORCED, 1)):
        assert_written_alike(model, tokenizer, truths, DecodingOptions(fed, True, 25), batch)
    if name in ("attention", "deltanet"):
        for memory in MEMORIES[2:4]:
            assert_written_alike(model, tokenizer, truths, DecodingOptions(FREE, True, 25, frozenset(), memory), 3)


def test_where_memory_runs_out_fewer_examples_are_written_at_a_time() -> None:
    tokenizer, truths = prepared("repl", 4)

    class Small(Scripted):
        def extend(self, chunks: Mapping[int, Chunk]) -> dict[int, torch.Tensor]:
            if len(chunks) > 1:
                raise torch.OutOfMemoryError("no room")
            return super().extend(chunks)

    model = erring(truths, tokenizer.vocab_size, 0, 0.05, 2)
    expected = LoopGenerator(Scripted(model, tokenizer.vocab_size), tokenizer).generate(  # type: ignore[arg-type]
        make_requests(truths), DecodingOptions(FREE)
    )
    small = Small(model, tokenizer.vocab_size)
    small.overhead = 1000.0
    generator = drafting(small, tokenizer, 4)
    assert runs(generator.generate(make_requests(truths), DecodingOptions(FREE))) == runs(expected)
    assert generator.batch_size == 1
    assert all(math.isfinite(logprob) for one in expected for run in one.runs for logprob in run.logprobs)
