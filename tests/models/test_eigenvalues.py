"""Eigenvalues of a transition: where they lie, and what a reflection does to a state."""

import pytest
import torch

from remedy.models.mixers.deltanet import DeltaNet, delta_rule_chunked
from tests.models.small_decoders import decoder


@pytest.mark.parametrize(("eigenvalues", "low"), [("positive", 0.0), ("signed", -1.0), ("closed", -1.0)])
def test_eigenvalues_of_the_transition_lie_in_the_configured_range(eigenvalues: str, low: float) -> None:
    mixer = decoder(("deltanet",), eigenvalues=eigenvalues).layers[0].mixer
    assert isinstance(mixer, DeltaNet)

    def along_key(chosen: float) -> float:
        """The eigenvalue of I - beta k k^T that is not 1."""
        torch.nn.init.constant_(mixer.beta_proj.bias, chosen)
        return 1 - float(mixer._beta(torch.zeros(1, 1, 32))[0, 0, 0])

    assert along_key(50) == low
    assert along_key(-50) == 1
    near = along_key(6), along_key(-6)
    assert (near == (low, 1)) == (eigenvalues == "closed")
    assert near == pytest.approx((low, 1), abs=0.01)
    assert along_key(0) == pytest.approx((low + 1) / 2)


def test_a_reflection_by_a_closed_eigenvalue_keeps_the_state_for_ever() -> None:
    """10,000 tokens of keys that are all alike, with values of zero."""
    sizes = {}
    for eigenvalues in ("signed", "closed"):
        mixer = decoder(("deltanet",), eigenvalues=eigenvalues).layers[0].mixer
        assert isinstance(mixer, DeltaNet)
        torch.nn.init.constant_(mixer.beta_proj.bias, 6.0)
        beta = mixer._beta(torch.zeros(1, 1, 32)).mT.expand(1, -1, 10_000)
        key = torch.nn.functional.normalize(torch.ones(1, beta.shape[1], 1, 4), dim=-1).expand(-1, -1, 10_000, -1)
        start = torch.ones(1, beta.shape[1], 4, 4)
        _, state = delta_rule_chunked(key, key, torch.zeros_like(key), beta, None, start)
        sizes[eigenvalues] = float(state.norm() / start.norm())
    assert sizes["closed"] == pytest.approx(1, abs=1e-2)
    assert sizes["signed"] < 1e-3


@pytest.mark.parametrize("chosen", [-6.0, 6.0])
def test_training_comes_back_from_a_closed_end(chosen: float) -> None:
    mixer = decoder(("deltanet",), eigenvalues="closed").layers[0].mixer
    assert isinstance(mixer, DeltaNet)
    bias = torch.nn.init.constant_(mixer.beta_proj.bias, chosen)
    mixer._beta(torch.zeros(1, 1, 32)).sum().backward()
    assert bias.grad is not None
    assert (bias.grad > 1e-3).all()
