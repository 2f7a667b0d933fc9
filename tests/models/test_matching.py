"""Models of equal cost: a matched width comes within 2 % of what is really built, or is refused; costs are counted right."""

from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.flops import TokenCost, token_cost
from remedy.models.mixers import MIXERS


def built(**settings: Any) -> DecoderForCausalLM:
    config = DecoderSettings.model_validate({"num_hidden_layers": 2, "hidden_size": 64, **settings})
    return DecoderForCausalLM(DecoderConfig.from_settings(config, 10))


def cost(model: DecoderForCausalLM) -> TokenCost:
    found = token_cost(model)
    assert found is not None
    return found


def layer_parameters(model: DecoderForCausalLM) -> int:
    return sum(p.numel() for p in model.layers.parameters())


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_matched_model_has_as_many_parameters(mixer: str) -> None:
    ours, theirs = built(mixers=[mixer], match={"of": "parameters", "to": ["attention"]}), built()
    assert layer_parameters(ours) == pytest.approx(layer_parameters(theirs), rel=0.02)
    assert ours.config.hidden_size == theirs.config.hidden_size


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"mixers": ["mamba"]}, "state_size"),
        ({"mixers": ["mamba2"]}, "state_size"),
        ({"mixers": ["attention"]}, "window"),
        ({"mixers": ["gated_deltanet"], "hidden_size": None}, "hidden_size"),
    ],
)
def test_a_matched_model_has_as_much_state(settings: dict[str, Any], key: str) -> None:
    ours = built(**settings, match={"of": "state", "to": 16384})
    assert cost(ours).state_floats == pytest.approx(16384, rel=0.02)
    assert cost(ours).state_by_length == 0
    usual = built(**settings).config
    assert getattr(ours.config, key) != getattr(usual, key)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"match": {"of": "parameters", "to": 5}}, "no intermediate_size gives attention within 2 % of 5 parameters"),
        ({"mixers": ["gru"], "match": {"of": "flops", "to": ["attention"]}}, "match.length is missing"),
        ({"mixers": ["gru"], "match": {"of": "flops", "to": ["lstm"], "length": 5}}, "match.length 5 does nothing"),
    ],
)
def test_what_cannot_be_matched_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError) as failed:
        DecoderSettings.model_validate(settings)
    assert says in str(failed.value)


@pytest.mark.parametrize("window", [None, 8, 4096])
def test_operations_of_attention_are_those_that_pytorch_counts(window: int | None) -> None:
    """One token after 31 others: every product with a weight, and scores over the tokens it sees."""
    model = built(mixers=["attention"], window=window).eval()
    cache = model.new_cache()
    with torch.no_grad():
        model(torch.zeros(1, 31, dtype=torch.long), past_key_values=cache)
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:  # fused kernels count nothing
            model(torch.zeros(1, 1, dtype=torch.long), past_key_values=cache)
    assert cost(model).at(32)[0] == counter.get_total_flops()


@pytest.mark.parametrize("mixer", ["deltanet", "gru", "path_attention"])
def test_a_matched_model_has_as_many_operations_at_the_length(mixer: str) -> None:
    ours = built(mixers=[mixer], match={"of": "flops", "to": ["attention"], "length": 128})
    assert cost(ours).at(128)[0] == pytest.approx(
        cost(built()).at(128)[0], rel=0.03
    )  # the head, the same, is counted too
