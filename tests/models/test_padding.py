"""A decoder in the hands of Transformers' own `generate`: padded batches, beams, positions and embeddings, each right or refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, pipeline

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.loading import load_checkpoint
from remedy.settings import build
from remedy.train.config import RunConfig
from remedy.train.run import train
from tests.models.small_decoders import ALL, FORMS, decoder, named

LENGTHS = (9, 20, 9, 14)
WIDTH = 20


def left_padded() -> tuple[list[Tensor], Tensor, Tensor]:
    """Rows, and the batch and mask that a tokenizer with padding on the left makes of them."""
    generator = torch.Generator().manual_seed(3)
    rows = [torch.randint(2, 40, (n,), generator=generator) for n in LENGTHS]
    batch = torch.stack([torch.cat([torch.zeros(WIDTH - len(row), dtype=torch.long), row]) for row in rows])
    mask = torch.stack([(torch.arange(WIDTH) >= WIDTH - len(row)).long() for row in rows])
    return rows, batch, mask


def written(model: DecoderForCausalLM, ids: Tensor, **options: Any) -> Tensor:
    usual = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    made = model.generate(**{"inputs": ids} | usual | options)
    assert isinstance(made, Tensor)
    return made[:, ids.shape[1] :]


@pytest.mark.parametrize(("mixers", "settings"), FORMS, ids=named)
@torch.no_grad()
def test_rows_padded_on_the_left_are_read_as_alone(mixers: tuple[str, ...], settings: dict[str, object]) -> None:
    model = decoder(mixers, **settings)
    rows, batch, mask = left_padded()
    read = model(batch, attention_mask=mask).logits
    for row, logits in zip(rows, read):
        torch.testing.assert_close(logits[-len(row) :], model(row[None]).logits[0], atol=1e-4, rtol=0)


@pytest.mark.parametrize("mixers", ALL, ids=named)
@torch.no_grad()
def test_every_way_to_generate_gives_what_it_gives_alone_or_without_a_cache(mixers: tuple[str, ...]) -> None:
    model = decoder(mixers)
    rows, batch, mask = left_padded()
    alone = torch.cat([written(model, row[None]) for row in rows])
    for cached in (True, False):
        assert torch.equal(written(model, batch, attention_mask=mask, use_cache=cached), alone)
    beams = {"num_beams": 3, "num_return_sequences": 2}
    of_rows = torch.cat([written(model, row[None], use_cache=False, **beams) for row in rows])
    assert torch.equal(written(model, batch, attention_mask=mask, **beams), of_rows)
    embedded = model.generate(
        inputs_embeds=model.embeddings(batch), attention_mask=mask, max_new_tokens=6, do_sample=False, pad_token_id=0
    )
    assert torch.equal(embedded, alone)
    # A turn more: what was read stays, with its padding.
    first = model(batch, attention_mask=mask, use_cache=True)
    more, longer = batch[:, -7:], torch.cat([mask, torch.ones(4, 7, dtype=torch.long)], 1)
    second = model(more, attention_mask=longer, past_key_values=first.past_key_values).logits
    for row, new, logits in zip(rows, more, second):
        torch.testing.assert_close(logits, model(torch.cat([row, new])[None]).logits[0, -7:], atol=1e-4, rtol=0)


def test_padding_on_the_left_moves_no_gradient() -> None:
    rows, batch, mask = left_padded()
    alone, together = decoder(("deltanet", "attention")), decoder(("deltanet", "attention"))
    labels = batch.masked_fill(
        mask.cumsum(1) <= 1, -100
    )  # before a row's first token there is padding, and alone nothing
    together(batch, attention_mask=mask, labels=labels).loss.backward()
    for row in rows:
        alone(row[None], labels=row[None], num_items_in_batch=sum(LENGTHS) - len(LENGTHS)).loss.backward()
    for one, other in zip(alone.parameters(), together.parameters()):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=0)


def test_a_pipeline_on_a_runs_folder_writes_what_the_model_writes(tmp_path: Path) -> None:
    asked = {
        "output": str(tmp_path),
        "data": {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": [1, 6]}, "format": "cwm"},
        "tokenizer": {"kind": "bpe", "vocab_size": 300},
        "model": {"mixers": ["gru", "attention"], "hidden_size": 32},
        "train": {"max_steps": 2, "batch_size": 2, "threads": 1},
        "tracking": {"wandb": False},
    }
    config = build(RunConfig, asked, "run")
    assert_a_pipeline_writes_what_the_model_writes(train(config), config.data)


def assert_a_pipeline_writes_what_the_model_writes(folder: Path, data: DataConfig) -> None:
    """Alone and in a batch of unequal prompts, which Transformers pads on the left."""
    model, own = load_checkpoint(str(folder), "cpu")
    ids = [own.encode(one.spans[:6]).ids for one in examples(data, "test", range(3))]
    assert len(set(map(len, ids))) > 1
    expected = []
    for read in ids:
        made = list(read)
        while len(made) < len(read) + 12 and made[-1] != own.eos_id:
            made.append(int(model(torch.tensor([made])).logits[0, -1].detach().argmax()))
        expected.append(made[len(read) :])
    write = pipeline("text-generation", model=str(folder), device="cpu")
    read_by = write.tokenizer
    assert read_by is not None
    options = {"max_new_tokens": 12, "do_sample": False, "return_full_text": False, "skip_special_tokens": False}
    for size in (1, 3):
        written = write([read_by.decode(read) for read in ids], batch_size=size, **options)
        assert [one[0]["generated_text"] for one in written] == [read_by.decode(made) for made in expected]


def test_what_would_not_be_done_is_refused_in_a_sentence() -> None:
    model = decoder(("gru", "attention"))
    _, batch, mask = left_padded()
    hole, right, short = mask.clone(), mask.flip(1), mask[:, 1:]
    hole[1, 5] = 0
    empty = mask.clone()
    empty[2] = 0
    read = model(batch, attention_mask=mask, use_cache=True).past_key_values
    step = {"input_ids": batch[:, :1], "past_key_values": read}
    after = torch.cat([mask, torch.ones(4, 1, dtype=torch.long)], 1)
    counted = torch.arange(WIDTH).expand(4, -1)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"attention_mask": hole}, "row 1 has padding between its tokens"),
        ({"attention_mask": empty}, "row 2 has no token"),
        ({"attention_mask": right, "use_cache": True}, "row 0 is padded on the right"),
        ({"attention_mask": short}, r"its shape is \(4, 19\), but it must be \(4, 20\)"),
        ({"attention_mask": mask, "position_ids": counted}, "position_ids: in rows with padding"),
        ({"position_ids": counted + 3}, "position_ids: they must be 0 at the first token"),
        ({"position_ids": counted % 5, "use_cache": True}, "a row of several examples leaves no state"),
        ({"cache_position": torch.arange(WIDTH)}, "cache_position: this decoder does not take that"),
        ({"past_key_values": DynamicCache()}, r"its own `new_cache\(\)`, not DynamicCache"),
        ({**step, "attention_mask": torch.ones_like(after)}, "0 on the padding that past_key_values began with"),
        ({**step, "attention_mask": after * torch.cat([hole, mask[:, :1] * 0 + 1], 1)}, "padding between tokens"),
        ({**step, "position_ids": torch.full((4, 1), WIDTH)}, "must go on from what was read"),
    ]
    for given, says in cases:
        with pytest.raises(ValueError, match=says):
            model(**{"input_ids": batch} | given)
    with pytest.raises(ValueError, match="cache_implementation 'static'"):
        written(model, batch, attention_mask=mask, cache_implementation="static")
    torch.testing.assert_close(  # padding behind the tokens needs no cache to be right
        model(batch.flip(1), attention_mask=right).logits[0, :9],
        model(batch.flip(1)[:1, :9]).logits[0],
        atol=1e-5,
        rtol=0,
    )
