"""Kernels of flash-linear-attention: which are used, why others are not, and that none is used that disagrees with the reference.

A stand-in for one of its functions computes what it would, in its layout; `test_kernel_contracts` runs the library's own.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from remedy.models import kernels
from remedy.models.kernels import OPERATIONS, Use, compute, kernel, refusal, refusal_in_subprocess, try_kernels
from remedy.models.mixers.deltanet import _reference
from remedy.models.mixers.used_kernels import describe_kernels, find_kernels
from tests.models.small_decoders import decoder

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
BF16 = torch.bfloat16
RULE: Use = ("delta_rule", (16, 16, 1, 0))


def chunk_delta_rule(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, *, scale: float, initial_state: Tensor | None, **given: Any
) -> tuple[Tensor, Tensor]:
    """q, k (B, T, H, K), v (B, T, H, V), beta (B, T, H), as flash-linear-attention has it."""
    assert v.dtype != torch.float32, "ChunkDeltaRuleFunction does not support float32. Please use bfloat16."
    y, last = _reference(*(x.double().transpose(1, 2) for x in (scale * q, k, v, beta)), None, initial_state)
    return y.transpose(1, 2).to(v.dtype), last.float()


@pytest.fixture(autouse=True)
def _here() -> Iterator[None]:
    """Nothing is tried yet, and trials are in this process, where the stand-ins are, on its CPU whatever device they are for."""

    def here(use: Use, device: torch.device, dtype: torch.dtype) -> str | None:
        return refusal(use, CPU, dtype)

    with patch.dict(kernels.TRIALS, clear=True), patch.object(kernels, "refusal_in_subprocess", here):
        yield


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put functions into a module of a package that is not there."""

    def put(path: str, function: Callable[..., Any]) -> None:
        module, name = path.rsplit(".", 1)
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            parent = ".".join(parts[:end])
            if parent not in sys.modules or sys.modules[parent] is None:
                monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
        monkeypatch.setattr(sys.modules[module], name, function, raising=False)

    return put


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fla", None)


class Scaled(torch.autograd.Function):
    """The identity with another gradient, as a miscompiled backward pass has."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return 1.5 * gradients[0]


def test_a_kernel_that_agrees_is_found_and_used(install: Callable[..., None], nothing_installed: None) -> None:
    install("fla.ops.delta_rule.chunk_delta_rule", chunk_delta_rule)
    inputs = OPERATIONS["delta_rule"].example(BF16, 16, 16, 1, 0)
    assert kernel("delta_rule", BF16, *inputs) is None  # not tried yet
    try_kernels([RULE], CPU, BF16)
    assert kernel("delta_rule", BF16, *inputs) is not None
    assert kernel("delta_rule", torch.float32, *inputs) is None
    y, _ = compute("delta_rule", BF16, *inputs)
    assert y.dtype == BF16  # the reference's is float32


def test_a_wrong_gradient_is_seen_where_outputs_are_right(
    install: Callable[..., None], nothing_installed: None
) -> None:
    def wrong(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, **given: Any) -> Any:
        return chunk_delta_rule(q, k, v, Scaled.apply(beta), **given)

    install("fla.ops.delta_rule.chunk_delta_rule", wrong)
    try_kernels([RULE], CPU, BF16)
    (reason,) = kernels.TRIALS.values()
    assert reason == "flash-linear-attention is 0.5 from the reference in bfloat16, of at most 0.03"


@pytest.mark.parametrize("broken", ["state", "nan", "shape"])
def test_a_wrong_state_nan_or_another_shape_is_not_used(
    broken: str, install: Callable[..., None], nothing_installed: None
) -> None:
    def wrong(*inputs: Tensor, **given: Any) -> Any:
        y, last = chunk_delta_rule(*inputs, **given)
        return {"state": (y, 2 * last), "nan": (y * torch.nan, last), "shape": (y[:, :5], last)}[broken]

    install("fla.ops.delta_rule.chunk_delta_rule", wrong)
    try_kernels([RULE], CPU, BF16)
    (reason,) = kernels.TRIALS.values()
    assert reason


def test_kernels_are_tried_once_and_never_in_a_forward_pass(
    install: Callable[..., None], nothing_installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("fla.ops.delta_rule.chunk_delta_rule", chunk_delta_rule)
    mixer, _ = decoder(("deltanet",), hidden_size=64, num_attention_heads=4).mixers()
    try_kernels(mixer.operations(), CPU, BF16)

    def never(*inputs: Any) -> None:
        raise AssertionError("tried again")

    monkeypatch.setattr(kernels, "refusal_in_subprocess", never)
    try_kernels(mixer.operations(), CPU, BF16)
    x = torch.randn(2, 40, 64, dtype=BF16)
    mixer = mixer.to(BF16)
    expected = mixer(x)
    compiled = torch.compile(mixer, backend="eager", fullgraph=True)  # the look-up breaks no graph
    torch.testing.assert_close(compiled(x), expected)


def test_a_library_that_is_missing_or_breaks_is_named_for_every_kernel(
    install: Callable[..., None], nothing_installed: None
) -> None:
    def fails(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no kernel image is available for execution on the device\nand more")

    install("fla.modules.causal_conv1d.causal_conv1d", fails)
    layers = decoder(("mamba", "deltanet")).mixers()
    find_kernels(layers, CUDA, BF16)
    line = describe_kernels(layers, CUDA, BF16)
    assert "mamba: selective_scan by PyTorch (flash-linear-attention does not run (ModuleNotFoundError: " in line
    reason = (
        "flash-linear-attention does not run (RuntimeError: no kernel image is available for execution on the device)"
    )
    assert line.count(reason) == 2


@pytest.mark.parametrize(("end", "status"), [("os.kill(os.getpid(), 11)", -11), ("raise SystemExit(0)", 0)])
def test_a_kernel_that_ends_its_process_is_tried_in_another(
    end: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package is seen by this process alone, by its search path, which the other one is given."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "fla.py").write_text(f"import os\n\n{end}\n")
    answer = refusal_in_subprocess(RULE, CPU, BF16)
    assert answer == f"flash-linear-attention ended its process (status {status}: nothing said)"


def test_a_trial_is_on_the_device_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """`cuda` without an index is none that the other process can choose."""
    tried: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(kernels, "refusal_in_subprocess", lambda use, device, dtype: tried.append(device))
    try_kernels([RULE], torch.device("cuda"), BF16)
    assert tried == [torch.device("cuda", 1)]
