"""What flash-linear-attention's kernels take and return, checked without a GPU by our own trial of them.

They run in Triton's interpreter. Not seen by this: what a compiler makes of them, TF32, shared memory, other autotuned
configurations, races.
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch

SOURCES = os.environ.get("REMEDY_KERNEL_SOURCES", "")
pytestmark = pytest.mark.skipif(not SOURCES, reason="needs the library in an environment of its own: make kernels")
if SOURCES:
    os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is defined: before its package is imported
    sys.path[:0] = SOURCES.split(os.pathsep)
    from triton.runtime import autotuner

    original = autotuner.Autotuner.__init__

    def first_configuration(self: Any, *args: Any, **kwargs: Any) -> None:
        """Choosing by time would want a driver."""
        original(self, *args, **kwargs)
        self.configs = self.configs[:1]

    autotuner.Autotuner.__init__ = first_configuration

from remedy.models.kernels import LIMITS, OPERATIONS, distance_between, refusal, results  # noqa: E402
from remedy.models.mixers import MIXERS  # noqa: E402

CPU = torch.device("cpu")
list(MIXERS.values())  # their modules register the operations
HALF = torch.float16  # the interpreter computes with the bits of a bfloat16


def interpreted(*bounds: Any) -> Iterator[Any]:
    """`range` as a compiled kernel has it: the interpreter's gives integers, which have no `.to`."""
    import triton.language as tl

    for index in range(*(int(b.handle.data.item()) if hasattr(b, "handle") else int(b) for b in bounds)):
        yield tl.full((), index, tl.int32)


@pytest.fixture(autouse=True)
def _as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device", lambda *_: contextlib.nullcontext())
    properties = types.SimpleNamespace(multi_processor_count=8)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: properties)
    from fla.ops.common import chunk_delta_h, chunk_h
    from fla.ops.gated_delta_product import chunk_deltaproduct_h
    from fla.ops.generalized_delta_rule.dplr import chunk_h_bwd, chunk_h_fwd

    for module in (chunk_delta_h, chunk_h, chunk_deltaproduct_h, chunk_h_bwd, chunk_h_fwd):
        monkeypatch.setattr(module, "range", interpreted, raising=False)


def assert_agree(operation: str, inputs: tuple[Any, ...]) -> None:
    """The kernel has the reference's outputs, states and gradients (of the state as well)."""
    assert OPERATIONS[operation].takes(*inputs)
    expected = results(OPERATIONS[operation].reference, inputs, torch.float64)
    assert distance_between(results(OPERATIONS[operation].kernel, inputs), expected) < LIMITS[HALF]


FORMS: list[tuple[str, tuple[int, ...], torch.dtype, str | None]] = [
    ("delta_rule", (16, 32, 1, 0), HALF, None),
    ("delta_rule", (64, 32, 1, 1), HALF, None),
    ("delta_rule", (64, 32, 2, 0), HALF, None),
    ("delta_rule", (16, 32, 2, 1), HALF, None),
    ("delta_rule", (16, 16, 1, 0), torch.float32, None),
    ("delta_rule", (16, 320, 1, 0), HALF, "does not take this form"),
    ("selective_scan", (16, 4, 0), HALF, None),
    ("selective_scan", (16, 4, 1), torch.float32, None),
    ("state_space_duality", (2, 16, 16, 0), torch.float32, None),
    ("state_space_duality", (2, 16, 16, 1), HALF, None),
    ("wkv", (16, 16), torch.float32, None),
    ("wkv", (64, 64), HALF, None),
    ("path_attention", (16,), HALF, None),
    ("path_attention", (64,), HALF, None),
    ("path_attention", (64,), torch.float32, "from the reference"),  # its lines in float16 are seen
]


@pytest.mark.parametrize(("operation", "widths", "dtype", "expected"), FORMS)
def test_the_kernels_of_flash_linear_attention(
    operation: str, widths: tuple[int, ...], dtype: torch.dtype, expected: str | None
) -> None:
    """In this process, for which the interpreter is set up, and one after the other: it runs one kernel at a time."""
    reason = refusal((operation, widths), CPU, dtype)
    assert reason is None if expected is None else expected in str(reason), reason


@pytest.mark.parametrize("steps", [2, 33])
@pytest.mark.parametrize(
    ("operation", "widths", "shape"),
    [
        ("wkv", (16, 16), (1, 2, 16, 16)),
        ("delta_rule", (16, 16, 1, 1), (1, 2, 16, 16)),
        ("delta_rule", (16, 16, 2, 0), (1, 2, 16, 16)),
        ("selective_scan", (16, 4, 1), (1, 16, 4)),
        ("state_space_duality", (2, 16, 16, 1), (1, 2, 16, 16)),
    ],
)
def test_a_state_is_taken_over(operation: str, widths: tuple[int, ...], shape: tuple[int, ...], steps: int) -> None:
    """Of sequences that are no multiple of a chunk."""
    torch.manual_seed(0)
    *inputs, _ = OPERATIONS[operation].example(HALF, *widths)
    time = 1 if operation in ("selective_scan", "state_space_duality") else 2
    whole = inputs[0].shape[time]

    def cut(x: Any) -> Any:
        """The first steps of what has them; of n steps a token, n times as many."""
        if not isinstance(x, torch.Tensor) or x.ndim <= time or x.shape[time] % whole:
            return x
        return x.narrow(time, 0, steps * (x.shape[time] // whole))

    assert_agree(operation, (*map(cut, inputs), torch.randn(*shape)))
