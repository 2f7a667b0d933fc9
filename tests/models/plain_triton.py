"""Functions of Triton's own in place of those that mamba-ssm writes in assembler, which Triton's interpreter has not."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def cos_approx(x: Any) -> Any:
    return tl.cos(x)


@triton.jit
def sin_approx(x: Any) -> Any:
    return tl.sin(x)


@triton.jit
def sigmoid_approx(x: Any) -> Any:
    return 1 / (1 + tl.exp(-x))


@triton.jit
def tanh_approx(x: Any) -> Any:
    return 2 / (1 + tl.exp(-2 * x)) - 1


@triton.jit
def silu(x: Any) -> Any:
    return x / (1 + tl.exp(-x))
