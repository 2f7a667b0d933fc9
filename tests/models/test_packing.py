"""Examples packed into one row are read as if each stood alone: losses and gradients, of every mixer and of Transformers' models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from remedy.models.positions import Packing, try_packing
from remedy.settings import UserError
from tests.models.small_decoders import ALL, FORMS, decoder, named
from tests.tiny_models import FAMILIES, tiny_model

VOCABULARY, CPU = 40, torch.device("cpu")


def examples(*lengths: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(sum(lengths))
    return [torch.randint(3, VOCABULARY, (length,), generator=generator) for length in lengths]


def packed(rows: list[list[torch.Tensor]]) -> dict[str, torch.Tensor]:
    """What the collator makes of rows of examples, all tokens but the first of each supervised."""
    width = max(sum(map(len, row)) for row in rows)
    ids, labels, positions = (torch.full((len(rows), width), fill) for fill in (0, -100, 0))
    for i, row in enumerate(rows):
        joined = torch.cat(row)
        ids[i, : len(joined)] = labels[i, : len(joined)] = joined
        positions[i, : len(joined)] = torch.cat([torch.arange(len(example)) for example in row])
        positions[i, len(joined) :] = torch.arange(width - len(joined)) % max(map(len, row))
    return {"input_ids": ids, "labels": labels.masked_fill(positions == 0, -100), "position_ids": positions}


def loss_and_gradients(model: Any, batches: list[dict[str, torch.Tensor]]) -> tuple[float, list[torch.Tensor]]:
    """Of the sum of all tokens' losses."""
    model.zero_grad()
    total = 0.0
    for batch in batches:
        targets = batch.pop("labels")[:, 1:]
        logits = model(**batch, use_cache=False).logits[:, :-1]
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
        loss.backward()
        total += float(loss.detach())
    return total, [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def assert_as_alone(model: Any, rows: list[list[torch.Tensor]]) -> None:
    alone = [{"input_ids": one[None], "labels": one[None].clone()} for row in rows for one in row]
    count = sum(len(one) - 1 for row in rows for one in row)
    one, two = loss_and_gradients(model, alone), loss_and_gradients(model, [packed(rows)])
    assert two[0] / count == pytest.approx(one[0] / count, abs=1e-5)
    assert len(one[1]) == len(two[1])
    # They are sums in another order, whose rounding is to be seen against the whole gradient.
    for left, right in zip(one[1], two[1]):
        assert float((right - left).norm()) <= 1e-5 * max(1.0, float(left.norm()))


@pytest.mark.parametrize(("mixers", "settings"), [(mixers, {}) for mixers in ALL], ids=named)
def test_every_mixer_reads_packed_examples_as_alone(mixers: tuple[str, ...], settings: dict[str, object]) -> None:
    model = decoder(mixers, **settings).train()
    assert_as_alone(model, [examples(9, 37, 3), examples(2, 5), examples(40, 1, 12, 4)])


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(st.integers(1, 45), min_size=1, max_size=5), min_size=1, max_size=3), st.sampled_from(FORMS))
def test_wherever_the_borders_are_no_token_sees_past_them(
    lengths: list[list[int]], form: tuple[tuple[str, ...], dict[str, object]]
) -> None:
    model = decoder(form[0], **form[1])
    rows = [examples(*row) for row in lengths]
    batch = packed(rows)
    del batch["labels"]
    with torch.no_grad():
        logits = model(**batch).logits
        for i, row in enumerate(rows):
            start = 0
            for example in row:
                alone = model(example[None]).logits[0]
                torch.testing.assert_close(logits[i, start : start + len(example)], alone, atol=1e-4, rtol=0)
                start += len(example)


@given(st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=8), min_size=1, max_size=4))
def test_less_than_a_third_of_what_is_mixed_is_padding(lengths: list[list[int]]) -> None:
    batch = packed([examples(*row) for row in lengths])
    packing = Packing(batch["position_ids"])
    assert all(3 * int(group.real.sum()) > 2 * group.real.numel() - 1 for group in packing.groups)
    x = torch.rand(*batch["position_ids"].shape, 2)
    assert torch.equal(packing.join(packing.split(x)), x)


ISOLATING = {"llama", "mistral", "gemma3_text", "qwen3", "olmo2", "gpt2", "gpt_neox"}
"""Architectures in which examples of a row do not see one another, by measurement."""


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_of_transformers_holds_examples_apart_or_is_refused(family: str) -> None:
    model = tiny_model(family, VOCABULARY)
    if family in ISOLATING:
        try_packing(model, 3, CPU)
        assert_as_alone(model, [examples(9, 37, 3), examples(2, 5)])
    else:
        with pytest.raises(UserError, match=rf"^train\.pack 3: Transformers' {family} [^\n]+: set train\.pack to 1$"):
            try_packing(model, 3, CPU)
