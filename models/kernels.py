"""Fast CUDA kernels of other packages, where they work; the PyTorch forms in `mixers` are the reference and run everywhere.

Parameters are the mixers' own, so a checkpoint trained with kernels evaluates without. Whether a kernel works is found out by
running it once on a small input: packages import on machines on which they cannot run, and some fail only when called.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import torch


class Kernel(NamedTuple):
    """A kernel: where it is imported from, and a small call of it, given the function."""

    module: str
    name: str
    try_out: Callable[[Callable[..., Any]], Any]


def _half(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)


def _full(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, device="cuda", requires_grad=True)


KERNELS = {
    "selective_scan": Kernel(
        "mamba_ssm.ops.selective_scan_interface",
        "selective_scan_fn",
        lambda f: f(_full(1, 16, 8), _full(1, 16, 8), -_full(16, 4), _full(1, 4, 8), _full(1, 4, 8)),
    ),
    "ssd": Kernel(
        "mamba_ssm.ops.triton.ssd_combined",
        "mamba_chunk_scan_combined",
        lambda f: f(_half(1, 64, 2, 16), _full(1, 64, 2), -_full(2), _half(1, 64, 1, 16), _half(1, 64, 1, 16), 64),
    ),
    "causal_conv1d": Kernel("causal_conv1d", "causal_conv1d_fn", lambda f: f(_half(1, 16, 8), _half(16, 4))),
    "delta_rule": Kernel(
        "fla.ops.delta_rule",
        "chunk_delta_rule",
        lambda f: f(*(_half(1, 64, 2, 16) for _ in range(3)), _half(1, 64, 2), scale=1.0)[0],
    ),
    "gated_delta_rule": Kernel(
        "fla.ops.gated_delta_rule",
        "chunk_gated_delta_rule",
        lambda f: f(*(_half(1, 64, 2, 16) for _ in range(3)), -_full(1, 64, 2), _half(1, 64, 2), scale=1.0)[0],
    ),
}
USES = {
    "attention": (),
    "mamba": ("selective_scan", "causal_conv1d"),
    "mamba2": ("ssd", "causal_conv1d"),
    "deltanet": ("delta_rule", "causal_conv1d"),
    "gated_deltanet": ("gated_delta_rule", "causal_conv1d"),
    "deltaproduct": ("delta_rule", "causal_conv1d"),
    "gru": (),
    "lstm": (),
}
"""The kernels each mixer can use; attention, GRU and LSTM are PyTorch's own everywhere (flash attention and cuDNN on CUDA)."""


@cache
def found(name: str) -> Callable[..., Any] | str:
    """A kernel that ran on this machine, forward and backward, or why there is none."""
    if not torch.cuda.is_available():
        return "no CUDA device"
    kernel = KERNELS[name]
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(kernel.module), kernel.name)
        kernel.try_out(function).float().sum().backward()
        torch.cuda.synchronize()
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed"
    except Exception as error:  # whatever a package does wrong here, the reference still runs
        return f"{kernel.module} does not run ({type(error).__name__}: {(str(error).splitlines() or [''])[0]:.120})"
    return function


def kernel(name: str, x: torch.Tensor) -> Callable[..., Any] | None:
    """The kernel for an input, or None for the reference: on a CPU, in float32 (most take half precision only), or without one."""
    if not x.is_cuda or x.dtype == torch.float32:
        return None
    function = found(name)
    return None if isinstance(function, str) else function


def describe(mixers: Iterable[str], eigenvalues: str | None, precision: str) -> str:
    """One line: which path each mixer takes, and why."""
    said = []
    for mixer in dict.fromkeys(mixers):
        if not USES[mixer]:
            said.append(f"{mixer} by PyTorch's own")
            continue
        main = USES[mixer][0]
        outcome = found(main)
        if not isinstance(outcome, str) and precision == "fp32":
            outcome = "kernels need train.precision bf16 or fp16"
        if not isinstance(outcome, str) and mixer in ("mamba", "mamba2") and eigenvalues == "signed":
            outcome = "no kernel has eigenvalues in [-1, 1]"
        said.append(
            f"{mixer} by {KERNELS[main].module}" if not isinstance(outcome, str) else f"{mixer} by PyTorch ({outcome})"
        )
    return "; ".join(said)
