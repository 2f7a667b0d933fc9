"""What a row takes of memory is measured: nothing a token for a recurrence, keys and values a token for attention."""

import pytest

from remedy.models.cache_memory import Footprint
from remedy.models.reader import ModelReader
from tests.eval.decoding.test_decoding import prepared, small_model
from tests.tiny_models import tiny_model


@pytest.mark.parametrize(
    ("mixer", "numbers"), [("attention", (False, True)), ("deltanet", (True, False)), ("gru", (True, False))]
)
def test_attention_keeps_something_of_every_token_and_a_recurrence_of_every_row(
    mixer: str, numbers: tuple[bool, bool]
) -> None:
    tokenizer, _ = prepared("symbolic", 1)
    model = small_model(mixer, tokenizer)
    found = ModelReader(model).footprint
    assert (found.row > 0, found.token > 0) == numbers
    if mixer == "attention":
        assert found.token == model.config.num_hidden_layers * 2 * model.config.hidden_size * 4


def test_a_model_of_transformers_is_measured_as_well() -> None:
    model = tiny_model("llama", 50)
    config = model.config
    heads = config.num_key_value_heads * (config.hidden_size // config.num_attention_heads)
    assert ModelReader(model).footprint == Footprint(0.0, config.num_hidden_layers * 2 * heads * 4)


def test_memory_is_counted_by_device() -> None:
    reader = ModelReader(tiny_model("llama", 50))
    assert reader.available() > 2**20
