"""What kernels of other packages take and return, checked without a GPU by our own trial of them.

Triton's kernels run in Triton's interpreter. Not seen by this: kernels in CUDA, what a compiler makes of the others, TF32, shared
memory, other autotuned configurations, races.
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
pytestmark = pytest.mark.skipif(
    not SOURCES, reason="needs the kernels' packages in an environment of their own: make kernels"
)
if SOURCES:
    os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is defined: before its package is imported
    sys.path[:0] = SOURCES.split(os.pathsep)
    for compiled in ("selective_scan_cuda", "causal_conv1d_cuda"):
        sys.modules[compiled] = types.ModuleType(compiled)
    from triton.runtime import autotuner

    original = autotuner.Autotuner.__init__

    def first_configuration(self: Any, *args: Any, **kwargs: Any) -> None:
        """Choosing by time would want a driver."""
        original(self, *args, **kwargs)
        self.configs = self.configs[:1]

    autotuner.Autotuner.__init__ = first_configuration

from remedy.models import kernels  # noqa: E402
from remedy.models.kernels import OPERATIONS, Draw, KernelTrial  # noqa: E402
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


def outcome_of(operation: str, widths: tuple[int, ...], dtype: torch.dtype) -> KernelTrial:
    """In this process, for which the interpreter is set up, and one after the other: it runs one kernel at a time."""
    use, candidates = kernels.Use(operation, widths), OPERATIONS[operation].kernels
    whys = [(candidate, kernels.refusal(use, candidate, CPU, dtype)) for candidate in candidates]
    found = tuple((candidate, kernels.load_kernel(candidate)) for candidate, why in whys if why is None)
    return KernelTrial(found, tuple(why for _, why in whys if why is not None))


def assert_agree(operation: str, widths: tuple[int, ...], inputs: tuple[Any, ...]) -> None:
    """All kernels that take the input have the reference's outputs, states and gradients (of the state as well)."""
    expected = kernels._results(OPERATIONS[operation].reference, inputs, torch.float64)
    outcome = outcome_of(operation, widths, HALF)
    taken = [run for candidate, run in outcome.kernels if candidate.takes(*inputs)]
    assert taken, outcome.refusals
    for run in taken:
        found = kernels._results(run, inputs, None)
        assert max(map(kernels._distance, found, expected)) < kernels.LIMITS[HALF]


HGRN, GLA, RWKV, PATH = "fused_recurrent_hgrn", "chunk_simple_gla", "chunk_rwkv7", "parallel_path_attn"
PRODUCT, PLAIN, GATED = "chunk_gated_delta_product", "chunk_delta_rule", "chunk_gated_delta_rule"
FORMS: list[tuple[str, tuple[int, ...], torch.dtype, set[str]]] = [
    ("delta_rule", (16, 32, 1, 0), HALF, {PLAIN, GATED}),
    ("delta_rule", (64, 32, 1, 1), HALF, {GATED}),
    ("delta_rule", (64, 32, 2, 0), HALF, {PRODUCT, PLAIN, GATED}),
    ("delta_rule", (16, 32, 2, 1), HALF, {PRODUCT, GATED}),
    ("delta_rule", (16, 16, 1, 0), torch.float32, {GATED}),
    ("delta_rule", (16, 320, 1, 0), HALF, set()),
    ("selective_scan", (16, 4, 0), HALF, {HGRN}),
    ("selective_scan", (16, 4, 1), torch.float32, {HGRN}),
    ("state_space_duality", (2, 16, 16, 0), torch.float32, {GLA}),
    ("state_space_duality", (2, 16, 16, 1), HALF, {GLA}),
    ("wkv", (16, 16), torch.float32, {RWKV}),
    ("wkv", (64, 64), HALF, {RWKV}),
    ("path_attention", (16,), HALF, {PATH}),
    ("path_attention", (64,), HALF, {PATH}),
    ("path_attention", (64,), torch.float32, set()),  # its lines in float16 are seen
]


@pytest.mark.parametrize(("operation", "widths", "dtype", "expected"), FORMS)
def test_the_kernels_of_flash_linear_attention(
    operation: str, widths: tuple[int, ...], dtype: torch.dtype, expected: set[str]
) -> None:
    outcome = outcome_of(operation, widths, dtype)
    found = {one.path.rsplit(".", 1)[1] for one, _ in outcome.kernels if one.path.startswith("fla.")}
    assert found == expected, outcome.refusals


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
    draw = Draw(CPU, HALF)
    *inputs, _ = OPERATIONS[operation].example(draw, *widths)
    time = 1 if operation in ("selective_scan", "state_space_duality") else 2
    whole = inputs[0].shape[time]

    def cut(x: Any) -> Any:
        """The first steps of what has them; of n steps a token, n times as many."""
        if not isinstance(x, torch.Tensor) or x.ndim <= time or x.shape[time] % whole:
            return x
        return x.narrow(time, 0, steps * (x.shape[time] // whole))

    assert_agree(operation, widths, (*map(cut, inputs), draw.normal(*shape, dtype=torch.float32)))
