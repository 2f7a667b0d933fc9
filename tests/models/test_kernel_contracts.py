"""What kernels of other packages take and return, checked without a GPU by our own trial of them.

Triton's kernels run in Triton's interpreter; for the CUDA ones their packages' references stand in, behind the checks of their C++.
Not seen by this: what a compiler makes of them, TF32, shared memory, other autotuned configurations, races.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional as F

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

from remedy.models import kernel_trial, kernels  # noqa: E402
from remedy.models.config import DecoderSettings  # noqa: E402
from remedy.models.decoder import DecoderForCausalLM  # noqa: E402
from remedy.models.decoder_config import DecoderConfig  # noqa: E402
from remedy.models.kernels import OPERATIONS, Draw, Tried  # noqa: E402
from remedy.models.mixers import short_convolution  # noqa: E402

CPU = torch.device("cpu")
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


def outcome_of(operation: str, widths: tuple[int, ...], dtype: torch.dtype) -> Tried:
    kernel_trial.try_kernels([kernels.Use(operation, widths)], CPU, dtype)
    return kernels.TRIED.pop((operation, "cpu", dtype, widths))


def tried(operation: str, widths: tuple[int, ...], dtype: torch.dtype) -> tuple[list[str], tuple[str, ...]]:
    """The names of kernels that agree, and what is said of others."""
    outcome = outcome_of(operation, widths, dtype)
    return [found.path.rsplit(".", 1)[1] for found, _ in outcome.found], outcome.refused


@pytest.mark.parametrize("gated", [0, 1])
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("keys", [16, 64])
def test_the_delta_rules_of_flash_linear_attention(keys: int, n: int, gated: int) -> None:
    expected = ["chunk_gated_delta_product"] * (n > 1) + ["chunk_delta_rule"] * (not gated) + ["chunk_gated_delta_rule"]
    assert tried("delta_rule", (keys, 32, n, gated), HALF)[0] == expected


@pytest.mark.parametrize("gated", [0, 1])
def test_the_decaying_rule_takes_float32(gated: int) -> None:
    found, refused = tried("delta_rule", (16, 16, 1, gated), torch.float32)
    assert found == ["chunk_gated_delta_rule"]
    assert gated or "does not support float32" in refused[1]


def test_the_delta_rules_take_no_wider_heads() -> None:
    assert tried("delta_rule", (16, 320, 1, 0), HALF) == (
        [],
        (
            "fla.ops.gated_delta_product does not take this form",
            "fla.ops.delta_rule does not take this form",
            "fla.ops.gated_delta_rule does not take this form",
        ),
    )


@pytest.mark.parametrize("dtype", [HALF, torch.float32])
@pytest.mark.parametrize("signed", [0, 1])
def test_the_scans_of_state_spaces(signed: int, dtype: torch.dtype) -> None:
    assert "fused_recurrent_hgrn" in tried("selective_scan", (16, 4, signed), dtype)[0]
    found, refused = tried("state_space_duality", (2, 16, 16, signed), dtype)
    assert "chunk_simple_gla" in found, refused


@pytest.mark.parametrize("dtype", [HALF, torch.float32])
@pytest.mark.parametrize("keys", [16, 64])
def test_the_generalised_delta_rule(keys: int, dtype: torch.dtype) -> None:
    assert tried("wkv", (keys, keys), dtype) == (["chunk_rwkv7"], ())


@pytest.mark.parametrize("dtype", [HALF, torch.float32])
def test_attention_with_decay_and_keys_of_each_head(dtype: torch.dtype) -> None:
    assert tried("decayed_attention", (4, 16, 32), dtype) == (["chunk_simple_gla"], ())


@pytest.mark.parametrize("keys", [16, 64])
def test_path_attention(keys: int) -> None:
    assert tried("path_attention", (keys,), HALF) == (["parallel_path_attn"], ())


def test_path_attention_is_refused_in_float32_where_its_lines_in_float16_are_seen() -> None:
    found, refused = tried("path_attention", (64,), torch.float32)
    assert not found
    assert "from the reference in float32" in refused[0]


@pytest.mark.parametrize("steps", [2, 33])
def test_a_state_is_taken_over_in_the_generalised_rule(steps: int) -> None:
    draw = Draw(CPU, HALF)
    *inputs, _ = OPERATIONS["wkv"].example(draw, 16, 16)
    state = draw.normal(1, 2, 16, 16, dtype=torch.float32)
    assert_agree("wkv", (16, 16), (*(x[:, :, :steps] for x in inputs), state))


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("gated", [0, 1])
@pytest.mark.parametrize("steps", [2, 33])
def test_a_state_is_taken_over_in_every_form_of_the_rule(steps: int, gated: int, n: int) -> None:
    draw = Draw(CPU, HALF)
    q, k, v, beta, g, _ = OPERATIONS["delta_rule"].example(draw, 16, 16, n, gated)
    state = draw.normal(1, 2, 16, 16, dtype=torch.float32)
    inputs = (q[:, :, :steps], k[:, :, : n * steps], v[:, :, : n * steps], 2 * beta[:, :, : n * steps])
    assert_agree("delta_rule", (16, 16, n, gated), (*inputs, g[:, :, :steps] if g is not None else None, state))


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("steps", [2, 33])
def test_a_state_is_taken_over_in_every_scan(steps: int, signed: bool) -> None:
    draw = Draw(CPU, HALF)
    u, step, a, b, c, *_ = OPERATIONS["selective_scan"].example(draw, 16, 4, signed)
    state = draw.normal(1, 16, 4, dtype=torch.float32)
    inputs = (u[:, :steps], step[:, :steps], a, b[:, :steps], c[:, :steps], signed, state)
    assert_agree("selective_scan", (16, 4, int(signed)), inputs)
    u, step, a, b, c, *_ = OPERATIONS["state_space_duality"].example(draw, 2, 16, 16, signed)
    state = draw.normal(1, 2, 16, 16, dtype=torch.float32)
    inputs = (u[:, :steps], step[:, :steps], a, b[:, :steps], c[:, :steps], signed, state)
    assert_agree("state_space_duality", (2, 16, 16, int(signed)), inputs)


def assert_agree(operation: str, widths: tuple[int, ...], inputs: tuple[Any, ...]) -> None:
    """All kernels that take the input have the reference's outputs, states and gradients (of the state as well)."""
    expected = kernel_trial._results(OPERATIONS[operation].reference, inputs, torch.float64)
    outcome = outcome_of(operation, widths, HALF)
    taken = [run for candidate, run in outcome.found if candidate.takes(*inputs)]
    assert taken, outcome.refused
    for run in taken:
        found = kernel_trial._results(run, inputs, None)
        assert max(map(kernel_trial._distance, found, expected)) < kernel_trial.LIMITS[HALF]


@pytest.mark.filterwarnings("ignore::UserWarning")
@torch.no_grad()
def test_rwkv7_is_flash_linear_attentions_first_layer() -> None:
    """The one without a value residual."""
    from fla.layers.rwkv7 import RWKV7Attention

    ours = layer("rwkv7")
    theirs = RWKV7Attention(hidden_size=32, head_dim=16, num_hidden_layers=2, layer_idx=0).eval()
    begun = dict(theirs.named_parameters())
    renamed = {"out_proj.weight": "o_proj.weight"}
    for name in "rwkvag":
        renamed[f"shift_{name}"] = f"x_{name}"
    for part in ("weight", "bias"):
        renamed[f"out_norm.{part}"] = f"g_norm.{part}"
        renamed |= {
            f"{low}_lora.{ours_}.{part}": f"{low}_lora.lora.{n}.{part}"
            for low in "wag"
            for ours_, n in (("down", 0), ("up", 2))
        }
    plain = {"r_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"}
    for name, parameter in ours.named_parameters():
        begins = begun[renamed.get(name, name)].reshape(parameter.shape)
        if name not in plain and not name.endswith("up.weight"):  # these are drawn
            torch.testing.assert_close(parameter, begins, msg=name)
        torch.nn.init.normal_(parameter, std=0.3)
        begins.copy_(parameter)
    x = torch.randn(2, 70, 32)
    torch.testing.assert_close(ours(x), theirs(x)[0], atol=1e-4, rtol=1e-3)


@torch.no_grad()
def test_path_attention_is_flash_linear_attentions() -> None:
    from fla.layers.path_attn import PaTHAttention

    ours = layer("path_attention")
    theirs = PaTHAttention(hidden_size=32, num_heads=2)
    ours.convolution.conv1d.bias.zero_()  # the only difference
    pairs = dict(zip(("q_proj", "k_proj", "v_proj"), ours.qkv_proj.weight.chunk(3)))
    pairs |= {"w_proj.0": ours.w_down.weight, "w_proj.1": ours.w_up.weight, "o_proj": ours.out_proj.weight}
    pairs |= {"w_conv1d": ours.convolution.conv1d.weight, "bt_proj": ours.beta_proj.weight}
    for name, value in pairs.items():
        theirs.get_submodule(name).weight.copy_(value)
    theirs.bt_proj.bias.copy_(ours.beta_proj.bias)
    assert set(dict(theirs.named_parameters())) == {*(f"{name}.weight" for name in pairs), "bt_proj.bias"}
    x = torch.randn(2, 150, 32)
    torch.testing.assert_close(ours(x), theirs(x)[0], atol=1e-3, rtol=1e-2)


@torch.no_grad()
def test_mamba3_is_mamba_ssms(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forward pass of its kernels, but for what they write in assembler."""
    angle_dt = pytest.importorskip("mamba_ssm.ops.triton.mamba3.angle_dt")
    siso = pytest.importorskip("mamba_ssm.ops.triton.mamba3.mamba3_siso_fwd")
    plain = importlib.import_module("tests.models.plain_triton")
    for module in (angle_dt, siso):
        monkeypatch.setattr(module, "range", interpreted, raising=False)
        for name in ("cos_approx", "sin_approx", "sigmoid_approx", "tanh_approx", "silu"):
            monkeypatch.setattr(module, name, getattr(plain, name), raising=False)
    ours = layer("mamba3", state_size=16)
    for parameter in ours.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    x = torch.randn(2, 70, 32)
    gate, u, b, c, step, rate, mix, angle = ours.in_proj(x).split(ours.sizes, -1)
    gate, u = (part.unflatten(-1, (ours.heads, -1)) for part in (gate, u))
    step = F.softplus(step + ours.dt_bias)
    exponent, step, mix = ((part.transpose(1, 2).contiguous()) for part in (-F.softplus(rate) * step, step, mix))
    angles = angle[:, :, None].repeat(1, 1, ours.heads, 1)
    angles, _ = angle_dt.angle_dt_fwd(angles, step, return_output_state=True)
    q, k = (part[:, :, None] for part in (ours.c_norm(c), ours.b_norm(b)))
    biases = (ours.C_bias, ours.B_bias)
    y, *_ = siso.mamba3_siso_fwd(q, k, u, exponent, step, mix, *biases, angles, ours.D, gate, return_final_states=True)
    torch.testing.assert_close(ours(x), ours.out_proj(y.flatten(2)), atol=1e-3, rtol=1e-3)


def layer(name: str, **settings: object) -> Any:
    """A mixer of two heads of 16 channels, the first of two layers."""
    torch.manual_seed(0)
    shape = {"mixers": [name], "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2}
    config = DecoderConfig.from_settings(DecoderSettings.model_validate({**shape, **settings}), 40)
    return DecoderForCausalLM(config).eval().mixers()[0]


@pytest.mark.parametrize("activated", [0, 1])
@pytest.mark.parametrize("channels", [16, 20, 44])
def test_the_convolutions(channels: int, activated: int, monkeypatch: pytest.MonkeyPatch) -> None:
    causal_conv1d_stands_in(monkeypatch)
    expected = ["causal_conv1d_fn", "causal_conv1d"]
    assert tried("short_convolution", (channels, 4, activated), HALF) == (expected, ())


@pytest.mark.parametrize(("width", "row"), [(16, 16), (16, 44), (20, 48)])
def test_the_compiled_convolution_is_given_layouts_that_it_takes(
    width: int, row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`row`: columns of the projection that the input is a part of, as Mamba's and Mamba-2's are."""
    causal_conv1d_stands_in(monkeypatch)
    from causal_conv1d import causal_conv1d_fn

    draw = Draw(CPU, HALF)
    x = draw.normal(2, 33, row)[..., :width]
    weight, bias = draw.normal(width, 4), draw.normal(width)
    found = short_convolution._compiled(causal_conv1d_fn, x, weight, bias, "silu")
    expected = short_convolution._reference(x.double(), weight.double(), bias.double(), "silu")
    assert kernel_trial._distance(found, expected) < kernel_trial.LIMITS[HALF]


def causal_conv1d_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    interface = pytest.importorskip("causal_conv1d.causal_conv1d_interface")

    def checked(x: torch.Tensor) -> None:
        """csrc/causal_conv1d.cpp of 1.7.0, lines 175-182 and 295-303."""
        assert x.stride(2) == 1 or x.stride(1) == 1
        if x.stride(1) == 1 and x.stride(2) > 1:
            assert x.shape[1] % 8 == 0
            assert x.stride(2) % 8 == 0
            assert x.stride(0) % 8 == 0

    def run(x: Any, weight: Any, bias: Any, activated: bool) -> torch.Tensor:
        checked(x)
        assert bias.dtype == weight.dtype
        return interface.causal_conv1d_ref(x, weight, bias, activation="silu" if activated else None)

    def forward(x: Any, weight: Any, bias: Any, seq_idx: Any, first: Any, last: Any, activated: bool) -> Any:
        return run(x, weight, bias, activated)

    def backward(x: Any, weight: Any, bias: Any, dy: Any, *rest: Any) -> Any:
        inputs = [t.detach().requires_grad_() for t in (x, weight, bias)]
        with torch.enable_grad():
            y = run(*inputs, rest[-1])
        return *torch.autograd.grad(y, inputs, dy), None

    monkeypatch.setattr(interface, "causal_conv1d_fwd_function", forward)
    monkeypatch.setattr(interface, "causal_conv1d_bwd_function", backward)


@pytest.mark.parametrize("dtype", [HALF, torch.float32])
def test_the_scans_of_mamba_ssm(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    selective_scan_stands_in(monkeypatch)
    assert tried("selective_scan", (16, 4, 0), dtype)[0] == ["selective_scan_fn", "fused_recurrent_hgrn"]
    assert tried("selective_scan", (16, 4, 1), dtype)[0] == ["fused_recurrent_hgrn"]
    found = tried("state_space_duality", (2, 16, 16, 0), dtype)
    assert found == (["mamba_chunk_scan_combined", "chunk_simple_gla"], ())


def selective_scan_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    interface = pytest.importorskip("mamba_ssm.ops.selective_scan_interface")
    reference: Callable[..., Any] = interface.selective_scan_ref

    def forward(u: Any, delta: Any, a: Any, b: Any, c: Any, d: Any, z: Any, bias: Any, softplus: bool) -> Any:
        """The checks of csrc/selective_scan/selective_scan.cpp of 2.3.2, lines 235-244."""
        assert a.dtype == torch.float32
        assert {x.dtype for x in (u, delta, b, c)} == {u.dtype}
        assert all(x.stride(-1) == 1 or x.shape[-1] == 1 for x in (u, delta, b, c))
        assert b.dim() == c.dim() == 4
        y, last = reference(u, delta, a, b, c, d, z, bias, softplus, return_last_state=True)
        return y, torch.stack([last, last], -1).flatten(2)[:, :, None]

    def backward(u: Any, delta: Any, a: Any, b: Any, c: Any, d: Any, z: Any, bias: Any, dy: Any, *rest: Any) -> Any:
        assert dy.dtype == u.dtype
        assert dy.stride(-1) == 1 or dy.shape[-1] == 1
        inputs = [x.detach().requires_grad_() for x in (u, delta, a, b, c)]
        with torch.enable_grad():
            y = reference(*inputs)
        return *torch.autograd.grad(y, inputs, dy), None, None

    monkeypatch.setattr(interface.selective_scan_cuda, "fwd", forward, raising=False)
    monkeypatch.setattr(interface.selective_scan_cuda, "bwd", backward, raising=False)
