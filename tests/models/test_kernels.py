"""Kernels of other packages: which are used, why others are not, and that they agree with the reference."""

import sys
import types

import pytest
import torch
from torch.nn import functional as F

from remedy.models import kernels
from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.mixers import MIXERS, Mixer, describe_kernels


def mixers(*names: str, **settings: object) -> list[Mixer]:
    config = DecoderSettings.model_validate({"mixers": names, "num_hidden_layers": len(names), **settings})
    return DecoderForCausalLM(DecoderConfig.from_settings(config, 20)).mixers()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    kernels._attempt.cache_clear()


def test_every_mixer_says_which_path_it_takes_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    line = describe_kernels(mixers(*MIXERS), "bf16")
    assert "deltanet by PyTorch (no CUDA device)" in line
    assert "attention by PyTorch's own" in line
    assert line.count(" by ") == len(MIXERS)
    assert "\n" not in line


def test_a_package_that_is_missing_or_breaks_is_named_and_the_reference_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "mamba_ssm", None)  # as if it were not installed
    broken = types.ModuleType("fla.ops.delta_rule")
    monkeypatch.setitem(sys.modules, "fla", types.ModuleType("fla"))
    monkeypatch.setitem(sys.modules, "fla.ops", types.ModuleType("fla.ops"))
    monkeypatch.setitem(sys.modules, "fla.ops.delta_rule", broken)
    line = describe_kernels(mixers("mamba", "deltanet"), "bf16")
    assert "mamba by PyTorch (mamba_ssm" in line
    assert "deltanet by PyTorch (fla.ops.delta_rule does not run (AttributeError" in line
    assert kernels.kernel("delta_rule", torch.zeros(1, dtype=torch.bfloat16)) is None


def test_a_kernel_that_imports_but_fails_when_called_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no kernel image is available for execution on the device")

    module = types.ModuleType("causal_conv1d")
    module.causal_conv1d_fn = fails  # type: ignore[attr-defined]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(kernels, "_half", lambda *shape: torch.ones(shape))
    monkeypatch.setitem(sys.modules, "causal_conv1d", module)
    with pytest.raises(kernels.KernelUnavailable) as failed:
        kernels.load_kernel("causal_conv1d")
    reason = "causal_conv1d does not run (RuntimeError: no kernel image is available for execution on the device)"
    assert str(failed.value) == reason


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("mamba", {"eigenvalues": "signed"}, "mamba by PyTorch (no kernel has eigenvalues in [-1, 1])"),
        ("mamba2", {"state_size": 257}, "mamba2 by PyTorch (kernels take states up to 256, this has 257)"),
        (
            "gated_deltanet",
            {"hidden_size": 640, "expand_v": 2},
            "gated_deltanet by PyTorch (kernels take heads up to 256 wide, these are 320)",
        ),
        ("gated_deltanet", {"output_gate": True, "expand_v": 2}, "gated_deltanet by fla.ops.gated_delta_rule"),
    ],
)
def test_what_a_kernel_cannot_take_is_named(
    name: str, settings: dict[str, object], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_attempt", lambda name: lambda *args: None)
    assert describe_kernels(mixers(name, **settings), "bf16") == reason


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", [name for name, mixer in MIXERS.items() if mixer.kernels])
def test_kernels_agree_with_the_reference_forward_and_backward(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        kernels.load_kernel(MIXERS[name].kernels[0])
    except kernels.KernelUnavailable as reason:
        pytest.skip(str(reason))
    torch.manual_seed(0)
    config = DecoderConfig.from_settings(DecoderSettings.model_validate({"mixers": [name], "hidden_size": 128}), 64)
    model = DecoderForCausalLM(config).cuda()
    tokens = torch.randint(0, 64, (2, 256), device="cuda")

    def run() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        model.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens).logits
        F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten()).backward()
        return logits.float(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}

    fast, fast_gradients = run()
    monkeypatch.setattr(kernels, "_attempt", lambda name: kernels.KernelUnavailable("switched off"))
    slow, slow_gradients = run()
    assert (fast - slow).abs().max() < 0.05
    for parameter, gradient in slow_gradients.items():
        scale = gradient.abs().max().clamp(min=1e-6)
        assert (fast_gradients[parameter] - gradient).abs().max() < 0.1 * scale, parameter
