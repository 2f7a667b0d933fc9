"""Kernels of other packages: which are used, why others are not, and that none is used that does not agree with the reference.

Stand-ins for the packages compute what their functions would, in their layouts; `test_kernel_contracts` runs the packages' own.
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
from torch.nn import functional as F

from remedy.models import kernel_trial, kernels
from remedy.models.cache import MixerCache
from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.kernel_trial import apart, indexed, try_kernels
from remedy.models.kernels import OPERATIONS, Kernel, Use, kernel
from remedy.models.mixers import MIXERS, Mixer, describe_kernels, find_kernels, rnn, ssm_kernels
from remedy.models.mixers.delta_rule import _plain as plain_rule
from remedy.models.mixers.delta_rule import delta_rule, delta_rule_chunked
from tests.models.kernel_stand_ins import PATHS, causal_conv1d_fn, chunk_delta_rule, fused_recurrent_hgrn

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
BF16 = torch.bfloat16
RULE = Use("delta_rule", (16, 16, 1, 0))


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    with patch.dict(kernels.TRIED, clear=True):
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
    for package in ("fla", "mamba_ssm", "causal_conv1d"):
        monkeypatch.setitem(sys.modules, package, None)


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
    inputs = OPERATIONS["delta_rule"].example(kernels.Draw(CPU, BF16), 16, 16, 1, 0)
    assert kernel("delta_rule", BF16, *inputs) is None  # not tried yet
    try_kernels([RULE], CPU, BF16)
    assert kernel("delta_rule", BF16, *inputs) is not None
    assert kernel("delta_rule", torch.float32, *inputs) is None
    y, _ = delta_rule(*inputs)
    assert y.dtype == BF16  # the reference's is float32


FLA = {path: function for path, function in PATHS.items() if path.startswith("fla.")}


@pytest.mark.parametrize("dtype", [BF16, torch.float16, torch.float32])
@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("packages", [FLA, PATHS], ids=["fla", "all"])
def test_flash_linear_attention_alone_has_a_kernel_for_every_form(
    packages: dict[str, Any],
    signed: int,
    dtype: torch.dtype,
    install: Callable[..., None],
    nothing_installed: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("remedy.models.mixers.path.STEPS", 70)
    for path, function in packages.items():
        install(path, function)
    forms = [("selective_scan", (8, 4, signed)), ("state_space_duality", (2, 8, 4, signed))]
    forms += [("delta_rule", (8, 16, n, gated)) for n in (1, 2) for gated in (0, 1)]
    forms += [("short_convolution", (12, 4, activated)) for activated in (0, 1)] + [
        ("wkv", (8, 8)),
        ("path_attention", (16,)),
        ("decayed_attention", (2, 8, 4)),
    ]
    try_kernels([Use(*form) for form in forms], CPU, dtype)
    for (operation, _, _, widths), tried in kernels.TRIED.items():
        takers = [k.path for k in OPERATIONS[operation].kernels if k.path in packages]
        # In float32 the plain rule and the product have none of their own; nobody but us has negative transitions.
        inputs = OPERATIONS[operation].example(kernels.Draw(CPU, dtype), *widths)
        expected = [k.path for k in OPERATIONS[operation].kernels if k.path in takers and k.takes(*inputs)]
        if dtype == torch.float32 and operation == "delta_rule":
            expected = [path for path in expected if not path.endswith("chunk_delta_rule")]
        assert [k.path for k, _ in tried.found] == expected, tried.refused
        assert any(path.startswith("fla.") for path in expected)


@pytest.mark.parametrize("signed", [False, True])
def test_a_piece_of_a_sequence_goes_on_from_its_state(
    signed: bool, install: Callable[..., None], nothing_installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And by groups of channels, one launch for each whatever the length."""
    monkeypatch.setattr(ssm_kernels, "ELEMENTS", 3 * 7 * 4)
    launches = []

    def counted(*inputs: Any, **given: Any) -> Any:
        launches.append(inputs[0].shape)
        return fused_recurrent_hgrn(*inputs, **given)

    for path, function in {**FLA, "fla.ops.hgrn.fused_recurrent_hgrn": counted}.items():
        install(path, function)
    scans = [("selective_scan", (8, 4), (1, 8, 4)), ("state_space_duality", (2, 8, 4), (1, 2, 4, 8))]
    for operation, sizes, shape in scans:
        widths = (*sizes, int(signed))
        try_kernels([Use(operation, widths)], CPU, torch.float32)
        draw = kernels.Draw(CPU, torch.float32)
        u, step, a, b, c, *_ = OPERATIONS[operation].example(draw, *widths)
        inputs = (u[:, :7], step[:, :7], a, b[:, :7], c[:, :7], signed, draw.normal(*shape))
        run = kernel(operation, torch.float32, *inputs)
        assert run is not None
        launches.clear()
        found = kernel_trial._results(run, inputs, None)
        expected = kernel_trial._results(OPERATIONS[operation].reference, inputs, torch.float64)
        assert max(map(kernel_trial._distance, found, expected)) < 1e-5
        # 3 of 8 channels at a time, and once more for the backward pass.
        assert len(launches) == (6 if operation == "selective_scan" else 0)


def test_a_wrong_gradient_is_seen_where_outputs_are_right(
    install: Callable[..., None], nothing_installed: None
) -> None:
    def wrong(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, **given: Any) -> Any:
        return chunk_delta_rule(q, k, v, Scaled.apply(beta), **given)

    install("fla.ops.delta_rule.chunk_delta_rule", wrong)
    try_kernels([RULE], CPU, BF16)
    (tried,) = kernels.TRIED.values()
    assert not tried.found
    assert "fla.ops.delta_rule is 0.5 from the reference in bfloat16, of at most 0.03" in tried.refused


@pytest.mark.parametrize("broken", ["state", "nan", "shape"])
def test_a_wrong_state_nan_or_another_shape_is_not_used(
    broken: str, install: Callable[..., None], nothing_installed: None
) -> None:
    def wrong(*inputs: Tensor, **given: Any) -> Any:
        y, last = chunk_delta_rule(*inputs, **given)
        return {"state": (y, 2 * last), "nan": (y * torch.nan, last), "shape": (y[:, :5], last)}[broken]

    install("fla.ops.delta_rule.chunk_delta_rule", wrong)
    try_kernels([RULE], CPU, BF16)
    (tried,) = kernels.TRIED.values()
    assert not tried.found


def test_the_example_is_one_on_which_the_references_are_finite() -> None:
    for name, widths in [
        ("delta_rule", (64, 64, 1, 0)),
        ("delta_rule", (16, 32, 3, 1)),
        ("selective_scan", (16, 16, 1)),
        ("state_space_duality", (2, 16, 64, 1)),
        ("short_convolution", (20, 4, 1)),
        ("wkv", (16, 16)),
        ("path_attention", (16,)),
        ("decayed_attention", (2, 16, 64)),
    ]:
        operation = OPERATIONS[name]
        inputs = operation.example(kernels.Draw(CPU, BF16), *widths)
        assert operation.widths(*inputs) == widths
        for result in kernel_trial._results(operation.reference, inputs, torch.float64):
            assert result.isfinite().all()
            assert result.norm() > 0


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", dtype=BF16)])
def test_evaluation_does_not_keep_a_kernel_from_being_found(
    mode: Callable[..., Any], install: Callable[..., None], nothing_installed: None
) -> None:
    install("fla.ops.delta_rule.chunk_delta_rule", chunk_delta_rule)
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    with mode():
        try_kernels([RULE], CPU, BF16)
    assert kernels.TRIED["delta_rule", "cpu", BF16, RULE.widths].found
    assert torch.equal(torch.rand(1), expected)  # and training goes on with the numbers it would have had


def test_kernels_are_tried_once_and_never_in_a_forward_pass(
    install: Callable[..., None], nothing_installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("fla.ops.delta_rule.chunk_delta_rule", chunk_delta_rule)
    (mixer,) = mixers("deltanet", hidden_size=64, num_attention_heads=4)
    try_kernels(mixer.operations(), CPU, BF16)

    def never(*inputs: Any) -> None:
        raise AssertionError("tried again")

    monkeypatch.setattr(kernel_trial, "refusal", never)
    try_kernels(mixer.operations(), CPU, BF16)
    x = torch.randn(2, 40, 64, dtype=BF16)
    mixer = mixer.to(BF16)
    expected = mixer(x)
    compiled = torch.compile(mixer, backend="eager", fullgraph=True)  # the look-up breaks no graph
    torch.testing.assert_close(compiled(x), expected)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("mamba2", {"num_attention_heads": 1}),
        ("mamba2", {"num_attention_heads": 2}),
        ("mamba2", {"num_attention_heads": 4, "state_size": 2}),
        ("deltanet", {"hidden_size": 60, "num_attention_heads": 2}),
        ("mamba", {"hidden_size": 50}),
        ("mamba", {}),
    ],
)
def test_the_convolution_never_raises_for_a_configuration(
    name: str, settings: dict[str, int], install: Callable[..., None], nothing_installed: None
) -> None:
    install("causal_conv1d.causal_conv1d_fn", causal_conv1d_fn)
    (mixer,) = mixers(name, **{"hidden_size": 64, **settings})
    x = torch.randn(2, 20, settings.get("hidden_size", 64))
    expected = mixer(x)
    try_kernels(mixer.get_submodule("convolution").operations(), CPU, torch.float32)
    ((_, tried),) = kernels.TRIED.items()
    assert [k.path for k, _ in tried.found] == ["causal_conv1d.causal_conv1d_fn"]
    torch.testing.assert_close(mixer(x), expected, atol=1e-5, rtol=1e-4)


def mixers(*names: str, **settings: object) -> list[Mixer]:
    config = DecoderSettings.model_validate({"mixers": names, "num_hidden_layers": len(names), **settings})
    return DecoderForCausalLM(DecoderConfig.from_settings(config, 20)).mixers()


def test_every_mixer_says_what_computes_it_and_why() -> None:
    layers = mixers(*MIXERS)
    find_kernels(layers, CPU, BF16)
    assert not kernels.TRIED
    line = describe_kernels(layers, CPU, BF16)
    assert "deltanet: delta_rule by PyTorch (no CUDA device), short_convolution by PyTorch (no CUDA device)" in line
    assert "attention: PyTorch's own" in line
    assert line.count(": ") == len(MIXERS)
    assert "\n" not in line


def test_what_was_not_tried_is_said() -> None:
    assert describe_kernels(mixers("mamba"), CUDA, BF16).count("PyTorch (kernels were not tried)") == 2


@pytest.fixture
def as_if_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples on the CPU, under the name of the other device."""
    whole = kernel_trial._refusals
    monkeypatch.setattr(kernel_trial, "_refusals", lambda asked, device, dtype: whole(asked, CPU, dtype))


def test_a_package_that_is_missing_or_breaks_is_named_for_every_kernel(
    install: Callable[..., None], nothing_installed: None, as_if_on_cuda: None
) -> None:
    def fails(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no kernel image is available for execution on the device\nand more")

    install("causal_conv1d.causal_conv1d_fn", fails)
    layers = mixers("mamba", "deltanet")
    find_kernels(layers, CUDA, BF16)
    line = describe_kernels(layers, CUDA, BF16)
    assert "mamba: selective_scan by PyTorch (mamba_ssm" in line
    reason = "causal_conv1d does not run (RuntimeError: no kernel image is available for execution on the device)"
    assert line.count(reason) == 2
    assert "does not take this form" in line  # one step a token is no product


def test_the_kernel_that_runs_is_named(
    install: Callable[..., None], nothing_installed: None, as_if_on_cuda: None
) -> None:
    install("fla.ops.delta_rule.chunk_delta_rule", chunk_delta_rule)
    layers = mixers("deltanet", short_convolution=False)
    find_kernels(layers, CUDA, BF16)
    assert describe_kernels(layers, CUDA, BF16) == "deltanet: delta_rule by fla.ops.delta_rule"


def test_a_shape_that_a_kernel_does_not_take_falls_back(install: Callable[..., None], nothing_installed: None) -> None:
    install("fla.ops.delta_rule.chunk_delta_rule", chunk_delta_rule)
    wide, step = Use("delta_rule", (16, 320, 1, 0)), Use("delta_rule", (16, 16, 1, 0))
    try_kernels([wide, step], CPU, BF16)
    for use, steps in ((wide, 20), (step, 1)):
        q, k, v, beta, g, state = OPERATIONS["delta_rule"].example(kernels.Draw(CPU, BF16), *use.widths)
        inputs = (*(x[:, :, :steps] for x in (q, k, v, beta)), g, state)
        assert kernel("delta_rule", BF16, *inputs) is None
        assert delta_rule(*inputs)[0].isfinite().all()


def test_a_rounded_key_leaves_the_length_of_its_reflection() -> None:
    """Under repeated reflections errors of the transition's eigenvalue, the same at every step, would add up."""
    torch.manual_seed(0)
    keys = F.normalize(torch.randn(4, 64), dim=-1)[torch.arange(256) % 4].expand(1, 1, -1, -1)
    q, v, beta = (
        F.normalize(torch.randn(1, 1, 256, 64), dim=-1),
        torch.randn(1, 1, 256, 64),
        torch.full((1, 1, 256), 2.0),
    )
    exact, _ = delta_rule_chunked(q.double(), keys.double(), v.double(), beta.double())

    def in_float32(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, **given: Any) -> Any:
        y, last = delta_rule_chunked(*(x.float().transpose(1, 2) for x in (q, k, v, beta)))
        return y.transpose(1, 2), last

    corrected, _ = plain_rule(in_float32, q, keys, v.to(BF16), beta, None, None)
    rounded, _ = delta_rule_chunked(q.to(BF16).float(), keys.to(BF16).float(), v.to(BF16).float(), beta)
    error = [float((y[:, :, -64:] - exact[:, :, -64:]).norm() / exact[:, :, -64:].norm()) for y in (corrected, rounded)]
    assert error[0] < error[1] / 2, error


def test_recurrent_layers_without_bf16_in_cudnn_compute_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    (gru,) = mixers("gru")
    for version, said in (
        (91002, "under autocast in float32 (cuDNN 91002 has none in bf16)"),
        (91300, "PyTorch's own"),
    ):
        monkeypatch.setattr(torch.backends.cudnn, "version", lambda version=version: version)
        assert gru.own_path(CUDA, BF16).endswith(said)
        assert rnn.has_bf16() == (version == 91300)
    assert gru.own_path(CUDA, torch.float32) == gru.own_path(CPU, BF16) == "PyTorch's own"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("eigenvalues", [None, "signed"])
@pytest.mark.parametrize("name", [name for name, mixer in MIXERS.items() if mixer.operations is not Mixer.operations])
def test_decoders_with_kernels_are_as_near_to_float32_as_without(name: str, eigenvalues: str | None) -> None:
    if eigenvalues and MIXERS[name].eigenvalues is None:
        pytest.skip("without the switch")
    torch.manual_seed(0)
    settings = {"mixers": [name], "hidden_size": 128, "eigenvalues": eigenvalues}
    config = DecoderConfig.from_settings(DecoderSettings.model_validate(settings), 64)
    model = DecoderForCausalLM(config).cuda()
    find_kernels(model.mixers(), CUDA, BF16)
    if not any(tried.found for tried in kernels.TRIED.values()):
        pytest.skip(describe_kernels(model.mixers(), CUDA, BF16))
    tokens = torch.randint(0, 64, (2, 256), device="cuda")

    def run(half: bool) -> list[Tensor]:
        model.zero_grad()
        with torch.autocast("cuda", dtype=BF16, enabled=half):
            logits = model(tokens).logits
        F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten()).backward()
        return [logits.detach().float()] + [p.grad.clone() for p in model.parameters() if p.grad is not None]

    fast = run(True)
    kernels.TRIED.clear()
    slow, exact = run(True), run(False)
    for one, other, true in zip(fast, slow, exact, strict=True):
        assert kernel_trial._distance(one, true) < 1.5 * kernel_trial._distance(other, true) + 0.01


@pytest.mark.parametrize("name", [name for name in MIXERS if name not in ("attention", "gru", "lstm")])
def test_decoding_goes_on_from_what_a_kernel_left(
    name: str, install: Callable[..., None], nothing_installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remedy.models.mixers.path.STEPS", 70)
    for path, function in FLA.items():
        install(path, function)
    (mixer,) = mixers(name, hidden_size=64, num_attention_heads=4)
    mixer = mixer.to(BF16)
    try_kernels(mixer.operations(), CPU, BF16)
    assert all(tried.found for tried in kernels.TRIED.values()), kernels.TRIED
    x, cache = torch.randn(2, 40, 64, dtype=BF16), MixerCache(1)
    with torch.no_grad():
        whole = mixer(x)
        parts = [mixer(x[:, start:stop], cache) for start, stop in ((0, 37), (37, 38), (38, 39), (39, 40))]
    assert torch.linalg.vector_norm(torch.cat(parts, 1) - whole) < 0.03 * torch.linalg.vector_norm(whole)


def written(folder: Path, body: str) -> Kernel:
    """A kernel of a package that a process finds by itself, and the path to it."""
    (folder / "broken_kernels").mkdir()
    (folder / "broken_kernels" / "__init__.py").write_text(
        f"import os, torch\n\ndef convolve(x, weight, bias, activation):\n    {body}\n"
    )
    return Kernel("broken_kernels.convolve", lambda function, *inputs: function(*inputs), lambda *inputs: True)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("os.kill(os.getpid(), 11)", "broken_kernels ended its process (signal SIGSEGV: nothing said)"),
        (
            "print('gone', file=__import__('sys').stderr); os._exit(3)",
            "broken_kernels ended its process (status 3: gone)",
        ),
        ("raise ValueError('no such form')", "broken_kernels does not run (ValueError: no such form)"),
        ("return x", "broken_kernels does not run (RuntimeError: "),
    ],
)
def test_a_kernel_that_ends_its_process_is_tried_in_another(
    body: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "sitecustomize.py").write_text(
        "import remedy.models.mixers\n"
        "from remedy.models.kernels import OPERATIONS, Kernel\n"
        "kernel = Kernel('broken_kernels.convolve', lambda function, *inputs: function(*inputs), lambda *inputs: True)\n"
        "OPERATIONS['short_convolution'] = OPERATIONS['short_convolution']._replace(kernels=(kernel,))\n"
    )
    (answer,) = apart([(Use("short_convolution", (8, 4, 1)), written(tmp_path, body))], CPU, BF16)
    assert answer is not None
    assert answer.startswith(said)


def test_kernels_tried_in_other_processes_are_refused_for_what_they_say(nothing_installed: None) -> None:
    asked = [(Use("short_convolution", (8, 4, 1)), one) for one in OPERATIONS["short_convolution"].kernels]
    assert apart(asked, CPU, BF16) == ["causal_conv1d is not installed", "fla is not installed"]


def test_another_process_is_told_which_gpu_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert [indexed(torch.device(name)) for name in ("cuda", "cuda:1", "cpu")] == ["cuda:3", "cuda:1", "cpu"]
