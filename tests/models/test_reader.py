"""Any causal language model reads batches of unequal prompts, and on from there, as `generate` and its own parallel pass do."""

import functools
import logging
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig, BertLMHeadModel
from transformers.cache_utils import DynamicLayer

from remedy.models.cache import Cut, GrowingDynamicCache, copied, cropped, selected
from remedy.models.chunks import Kind
from remedy.models.context_length import ContextLimit, context_limit
from remedy.models.reader import ModelReader
from remedy.settings import UserError
from tests.tiny_models import FAMILIES, tiny_model

VOCABULARY = 300
LENGTHS = (41, 20, 33, 20, 1)
KINDS = {
    Kind.PLAIN: {"rwkv", "recurrent_gemma", "minimax", "openai-gpt", "xlstm"},  # other caches, or none
    Kind.STEP: {"mamba", "falcon_mamba", "jamba"},
    Kind.COPY: {"qwen3_next", "olmo_hybrid", "mamba2", "falcon_h1", "bamba", "granitemoehybrid", "zamba2", "lfm2"},
}
"""Families by the cache that they are read with; all others crop."""


def prompts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(3, VOCABULARY, (length,), generator=generator).tolist() for length in LENGTHS]


def greedy(reader: ModelReader, batch: list[list[int]], steps: int) -> tuple[list[list[int]], torch.Tensor]:
    """What each row continues with, and all logits (B, steps, V)."""
    rows = [reader.prefill(batch)]
    while len(rows) < steps:
        rows.append(reader.step(rows[-1].argmax(-1).tolist()))
    logits = torch.stack(rows, dim=1)
    return logits.argmax(-1).tolist(), logits


@torch.no_grad()
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_read_as_generate_does_and_as_in_parallel(family: str) -> None:
    model = tiny_model(family, VOCABULARY)
    reader, batch, steps = ModelReader(model, family), prompts(), 8 if family == "xlstm" else 16
    written, logits = greedy(reader, batch, steps)
    kinds = [kind for kind, families in KINDS.items() if family in families]
    assert [reader.kind] == (kinds or [Kind.CROP])
    assert reader.departure.relative < 1e-4
    assert len({token for row in written for token in row}) > 5  # or nothing would be held by comparing them
    for row, prompt in enumerate(batch):
        whole = next(reader.parallel([prompt + written[row]]))[len(prompt) - 1 : -1]
        torch.testing.assert_close(whole, logits[row], atol=2e-4, rtol=1e-4)
        if family != "xlstm":
            made = model.generate(torch.tensor([prompt]), max_new_tokens=steps, do_sample=False, eos_token_id=None)
            assert made[0, len(prompt) :].tolist() == written[row]
    for row, found_alone in zip(batch, reader.parallel(batch), strict=True):  # right padding changes no row
        torch.testing.assert_close(found_alone, next(reader.parallel([row])), atol=2e-4, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("family", ["llama", "mistral", "qwen3_next", "mamba2", "zamba2"])
def test_rounding_of_half_precision_is_not_taken_for_a_fault(family: str) -> None:
    """A deep model's logits differ by a fifth of their deviation somewhere: the greatest of many draws of rounding."""
    deep = {"num_hidden_layers": 24} if family in ("llama", "mistral") else {}
    model = tiny_model(family, 20_000, **deep)
    exact = ModelReader(model, family).kind
    half = ModelReader(model.bfloat16(), family)
    assert half.kind is exact
    assert half.report()["precision"] == "bfloat16"


def in_steps(model: Any, change: float) -> Any:
    """The model, with its logits changed wherever it goes on from a state."""
    forward = model.forward

    @functools.wraps(forward)
    def changed(*args: Any, past_key_values: Any = None, **kwargs: Any) -> Any:
        output = forward(*args, past_key_values=past_key_values, **kwargs)
        if past_key_values is not None:
            output.logits = output.logits + change * output.logits.std() * torch.linspace(0, 1, VOCABULARY).sin()
        return output

    model.forward = changed
    return model


@torch.no_grad()
def test_a_cache_that_departs_from_the_parallel_pass_is_not_trusted(caplog: pytest.LogCaptureFixture) -> None:
    model = tiny_model("llama", VOCABULARY)
    right, _ = greedy(ModelReader(model), prompts(), 8)
    reader = ModelReader(in_steps(model, 0.01), "drifting")
    with caplog.at_level(logging.WARNING):
        written, _ = greedy(reader, prompts(), 8)
    assert reader.kind is Kind.PLAIN
    assert written == right
    (warning,) = [record.getMessage() for record in caplog.records if record.name.startswith("remedy")]
    assert "no cache of a known kind carries it on" in warning


def test_a_model_that_sees_what_follows_is_refused() -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model = BertLMHeadModel(BertConfig(vocab_size=VOCABULARY, **sizes)).eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False).mul_(8)
    with pytest.raises(UserError, match=r"^bert-tiny is not a causal language model \(bert\)"):
        ModelReader(model, "bert-tiny").prefill(prompts())


@pytest.mark.parametrize(
    ("family", "settings", "limit"),
    [
        ("gpt2", {"n_positions": 50}, ContextLimit(50, "n_positions", True)),
        ("opt", {"max_position_embeddings": 50}, ContextLimit(50, "max_position_embeddings", True)),
        (
            "llama",
            {"max_position_embeddings": 32},
            ContextLimit(32, "max_position_embeddings", False),
        ),  # as wide as that
        ("bloom", {}, None),
    ],
)
def test_a_context_ends_where_a_table_of_positions_does(
    family: str, settings: dict[str, int], limit: ContextLimit | None
) -> None:
    model = tiny_model(family, VOCABULARY, **settings)
    assert context_limit(model) == limit
    assert ModelReader(model).limit == (limit.tokens if limit is not None and limit.hard else None)


@given(
    st.integers(1, 3),
    st.integers(1, 2),
    st.lists(st.tuples(st.sampled_from(["cut", "part", "copy", "read"]), st.integers(1, 90)), min_size=1, max_size=8),
)
@torch.no_grad()
def test_keys_that_grow_in_place_are_those_that_are_concatenated(
    rows: int, heads: int, steps: list[tuple[str, int]]
) -> None:
    cache = GrowingDynamicCache()
    cache.layers = [DynamicLayer()]
    true = torch.empty(rows, heads, 0, 4)
    copies = []
    for number, (kind, count) in enumerate([("read", 3), *steps]):
        tokens = true.shape[-2]
        if kind == "copy":
            copies.append((cache, true.clone()))
            cache = copied(cache)
        elif kind == "part" and rows > 1:
            rows, true = rows - 1, true[1:]
            cache = selected(cache, range(1, rows + 1), [tokens] * rows)
        elif kind == "cut" and tokens > 1:
            kept = tokens - min(count, tokens - 1)
            true = true[:, :, :kept]
            cache = cropped(cache, Cut(tokens - kept, [0] * rows, [kept] * rows))
        elif kind == "read":
            new = torch.full((rows, heads, count, 4), float(number))
            true = torch.cat([true, new], dim=-2)
            cache.update(new, -new, 0)
        for one, expected in [*copies, (cache, true)]:
            torch.testing.assert_close(one.layers[0].keys, expected)
            torch.testing.assert_close(one.layers[0].values, -expected)


@torch.no_grad()
def test_keys_are_not_copied_for_every_token() -> None:
    cache = GrowingDynamicCache()
    cache.layers = [DynamicLayer()]
    tokens = torch.ones(2, 3, 1, 4)
    places = {cache.update(tokens, tokens, 0)[0].data_ptr() for _ in range(64)}
    assert len(places) == 1
