"""Fast CUDA kernels of other packages, where they work; the PyTorch forms in `mixers` are the reference and run everywhere.

Parameters are the mixers' own, so a checkpoint trained with kernels evaluates without. Whether a kernel works is found out by
running it once on a small input: packages import on machines on which they cannot run, and some fail only when called.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch

WIDEST = 256
"""The largest state dimension (Mamba) or width of a head's keys or values (delta rule) that the packages' kernels take."""


class KernelUnavailable(Exception):
    """Why a kernel cannot be used on this machine."""


class Kernel(NamedTuple):
    """A kernel: where it is imported from, and a small call of it, given the function."""

    module: str
    name: str
    smoke_test: Callable[[Callable[..., Any]], Any]


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


def load_kernel(name: str) -> Callable[..., Any]:
    """A kernel that ran on this machine, forward and backward.

    Raises:
        KernelUnavailable: there is no CUDA device, its package is not installed, or it does not run.
    """
    outcome = _attempt(name)
    if isinstance(outcome, KernelUnavailable):
        raise KernelUnavailable(str(outcome))
    return outcome


@cache
def _attempt(name: str) -> Callable[..., Any] | KernelUnavailable:
    if not torch.cuda.is_available():
        return KernelUnavailable("no CUDA device")
    kernel = KERNELS[name]
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(kernel.module), kernel.name)
        kernel.smoke_test(function).float().sum().backward()
        torch.cuda.synchronize()
    except ModuleNotFoundError as error:
        return KernelUnavailable(f"{error.name} is not installed")
    except Exception as error:  # whatever a package does wrong here, the reference still runs
        first = (str(error).splitlines() or [""])[0]
        return KernelUnavailable(f"{kernel.module} does not run ({type(error).__name__}: {first:.120})")
    return function


def kernel(name: str, x: torch.Tensor) -> Callable[..., Any] | None:
    """The kernel for an input, or None for the reference: on a CPU, in float32 (most take half precision only), or without one."""
    if not x.is_cuda or x.dtype == torch.float32:
        return None
    function = _attempt(name)
    return None if isinstance(function, KernelUnavailable) else function
