"""A decoder in the hands of Transformers' own `generate`: batches, beams, positions and embeddings, each right or refused."""

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
from tests.models.small_decoders import ALL, decoder, named

WIDTH = 20


def given() -> tuple[Tensor, Tensor]:
    """Four rows of tokens, and the mask of rows without padding."""
    batch = torch.randint(2, 40, (4, WIDTH), generator=torch.Generator().manual_seed(3))
    return batch, torch.ones_like(batch)


def written(model: DecoderForCausalLM, ids: Tensor, **options: Any) -> Tensor:
    usual = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    made = model.generate(**{"inputs": ids} | usual | options)
    assert isinstance(made, Tensor)
    return made[:, ids.shape[1] :]


@pytest.mark.parametrize("mixers", ALL, ids=named)
@torch.no_grad()
def test_every_way_to_generate_gives_what_it_gives_alone_or_without_a_cache(mixers: tuple[str, ...]) -> None:
    model = decoder(mixers)
    batch, mask = given()
    alone = torch.cat([written(model, row[None]) for row in batch])
    for cached in (True, False):
        assert torch.equal(written(model, batch, attention_mask=mask, use_cache=cached), alone)
    beams = {"num_beams": 3, "num_return_sequences": 2}
    of_rows = torch.cat([written(model, row[None], use_cache=False, **beams) for row in batch])
    assert torch.equal(written(model, batch, attention_mask=mask, **beams), of_rows)
    embedded = model.generate(
        inputs_embeds=model.embeddings(batch), attention_mask=mask, max_new_tokens=6, do_sample=False, pad_token_id=0
    )
    assert torch.equal(embedded, alone)


def test_a_pipeline_on_a_runs_folder_writes_what_the_model_writes(tmp_path: Path) -> None:
    asked = {
        "output": str(tmp_path),
        "data": {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": [1, 6]}, "format": "cwm"},
        "tokenizer": {"kind": "bpe", "vocab_size": 300},
        "model": {"mixers": ["gru", "attention"], "hidden_size": 32},
        "train": {"max_steps": 2, "batch_size": 2, "threads": 1},
        "tracking": {"report_to": []},
    }
    config = build(RunConfig, asked, "run")
    assert_a_pipeline_writes_what_the_model_writes(train(config), config.data)


def assert_a_pipeline_writes_what_the_model_writes(folder: Path, data: DataConfig) -> None:
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
    written = write([read_by.decode(read) for read in ids], batch_size=1, **options)
    assert [one[0]["generated_text"] for one in written] == [read_by.decode(made) for made in expected]


def test_what_would_not_be_done_is_refused_in_a_sentence() -> None:
    model = decoder(("gru", "attention"))
    batch, mask = given()
    hole, left, right = mask.clone(), mask.clone(), mask.clone()
    hole[1, 5], left[2, :4], right[3, -4:] = 0, 0, 0
    step = {"input_ids": batch[:, :1], "past_key_values": model(batch, use_cache=True).past_key_values}
    counted = torch.arange(WIDTH).expand(4, -1)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"attention_mask": left}, "row 2 has padding before"),
        ({"attention_mask": left, "use_cache": True}, "row 2 has padding before"),
        ({"attention_mask": hole}, "row 1 has padding before, between"),
        (
            {"attention_mask": right, "use_cache": True},
            "row 3 has padding .* one sequence at a time, or sequences of equal",
        ),
        ({"attention_mask": mask[:, 1:]}, r"its shape is \(4, 19\), but it must be \(4, 20\)"),
        ({"position_ids": counted + 3}, "position_ids: they must be 0 at the first token"),
        ({"position_ids": counted % 5, "use_cache": True}, "a row of several examples leaves no state"),
        ({"cache_position": torch.arange(WIDTH)}, "cache_position: this decoder does not take that"),
        ({"past_key_values": DynamicCache()}, r"its own `new_cache\(\)`, not DynamicCache"),
        ({**step, "attention_mask": torch.cat([left, mask[:, :1]], 1)}, "row 2 has padding before"),
        ({**step, "position_ids": torch.full((4, 1), WIDTH + 1)}, "must go on from what was read"),
    ]
    for asked, says in cases:
        with pytest.raises(ValueError, match=says):
            model(**{"input_ids": batch} | asked)
    with pytest.raises(ValueError, match="cache_implementation 'static'"):
        written(model, batch, attention_mask=mask, cache_implementation="static")
    torch.testing.assert_close(  # padding behind the tokens is of no account where nothing is written on
        model(batch, attention_mask=right).logits[3, :-4], model(batch[3:, :-4]).logits[0], atol=1e-5, rtol=0
    )
