"""Every mixer: causal, the same step by step as in parallel, and as published."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from remedy.models.chunks import Form
from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.mixers import MIXERS
from remedy.models.mixers.delta_rule import delta_rule_chunked
from remedy.models.mixers.deltanet import DeltaNet
from remedy.models.mixers.window import windowed_attention
from remedy.models.reader import ModelReader

ALL = [(name,) for name in MIXERS] + [("attention", "deltanet"), ("gru", "mamba2", "attention")]
SIGNED: dict[str, object] = {"eigenvalues": "signed"}
FORMS: list[tuple[tuple[str, ...], dict[str, object]]] = [
    *((mixers, {}) for mixers in ALL),
    *((mixers, SIGNED) for mixers in (("mamba",), ("mamba2",), ("gated_deltanet",))),
    (("deltanet",), {"eigenvalues": "positive"}),
    (("deltanet",), {"output_gate": True, "expand_v": 3, "short_convolution": False}),
    (("gated_deltanet",), {"output_gate": False, "expand_v": 1}),
    (("deltaproduct",), {"expand_v": 1, "num_householder": 3}),
    (("mamba2",), {"state_size": 16}),
    (("mamba3",), {"state_size": 10}),
    (("mamba3",), {"state_size": 1}),
    (("path_attention",), {"eigenvalues": "positive"}),
    (("attention",), {"window": 1}),
    (("attention",), {"window": 7, "qk_norm": True}),
    (("attention",), {"window": 7, "positions": "none"}),
    (("attention",), {"short_convolution": True, "rope_theta": 100.0}),
    (("attention",), {"positions": "randomised", "window": 20}),
    (("attention",), {"positions": "randomised", "position_range": 90, "position_capacity": 30}),
    (("attention",) * 4, {"window": (5, 5, 5, None)}),
    (("attention",) * 2, {"window": (5, None), "positions": ("rope", "none")}),
    (("deltanet", "attention"), {"window": 6, "short_convolution": True}),
]


def named(value: object) -> str:
    return "+".join(value) if isinstance(value, tuple) else "+".join(f"{k} {v}" for k, v in dict(value).items())  # type: ignore[call-overload]


def decoder(mixers: tuple[str, ...], **settings: object) -> DecoderForCausalLM:
    torch.manual_seed(0)
    shape: dict[str, object] = {"num_hidden_layers": max(2, len(mixers)), "hidden_size": 32}
    if any("num_attention_heads" in MIXERS[name].uses for name in mixers):
        shape["num_attention_heads"] = 2
    config = DecoderSettings.model_validate({"mixers": mixers, "intermediate_size": 88, **shape, **settings})
    model = DecoderForCausalLM(DecoderConfig.from_settings(config, 40)).eval()
    for name, parameter in model.named_parameters():
        if not parameter.any() and not name.endswith(
            "bias"
        ):  # low ranks begin at zero: nothing would depend on the input
            torch.nn.init.normal_(parameter, std=0.3)
    return model


@pytest.mark.parametrize(
    ("mixers", "settings"),
    FORMS,
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else "+".join(f"{key} {value[key]}" for key in value),
)
@torch.no_grad()
def test_parallel_and_step_by_step_and_by_pieces_agree(mixers: tuple[str, ...], settings: dict[str, object]) -> None:
    model = decoder(mixers, **settings)
    tokens = torch.randint(0, 40, (3, 83))
    parallel = model(tokens).logits
    for prefill in (1, 9):
        cache = model.new_cache()
        steps = [model(tokens[:, :prefill], past_key_values=cache).logits]
        steps += [model(tokens[:, t : t + 1], past_key_values=cache).logits for t in range(prefill, 83)]
        torch.testing.assert_close(torch.cat(steps, 1), parallel, atol=1e-5, rtol=0)
    if set(mixers) == {"attention"}:
        cache = model.new_cache()
        pieces = [model(piece, past_key_values=cache).logits for piece in tokens.split([4, 11, 1, 30, 37], 1)]
        torch.testing.assert_close(torch.cat(pieces, 1), parallel, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("mixers", "settings"), FORMS, ids=named)
@torch.no_grad()
def test_rows_of_unequal_prompts_are_read_together_as_alone(
    mixers: tuple[str, ...], settings: dict[str, object]
) -> None:
    model = decoder(mixers, **settings)
    reader = ModelReader(model)
    rows = [torch.randint(0, 40, (n,)).tolist() for n in (31, 3, 12)]
    found = [reader.prefill([row[:-2] for row in rows])]
    found += [reader.step([row[at] for row in rows]) for at in (-2, -1)]
    assert reader.form is Form.TOGETHER
    for number, row in enumerate(rows):
        alone = model(torch.tensor([row])).logits[0, -3:]
        torch.testing.assert_close(torch.stack([logits[number] for logits in found]), alone, atol=1e-5, rtol=0)


@torch.no_grad()
def test_a_window_is_what_a_token_sees_and_what_the_cache_keeps() -> None:
    model = decoder(("attention", "attention"), window=[5, None], num_hidden_layers=2)
    mixer, x = model.layers[0].mixer, torch.randn(1, 30, 32)
    changed = x.clone()
    changed[:, 10] += 1.0
    seen = (mixer(x) - mixer(changed)).abs().amax((0, 2)) > 0
    assert seen.nonzero().flatten().tolist() == [10, 11, 12, 13, 14]
    cache = model.new_cache()
    model(torch.randint(0, 40, (2, 30)), past_key_values=cache)
    assert [layer.keys.shape[-2] for layer in cache.layers] == [4, 30]
    model(torch.randint(0, 40, (2, 1)), past_key_values=cache)
    assert [layer.keys.shape[-2] for layer in cache.layers] == [4, 31]
    assert [mixer.state_floats() for mixer in model.mixers()] == [(5 * 2 * 32, 0), (0, 2 * 32)]


@torch.no_grad()
def test_a_layer_without_positions_does_not_see_the_order_of_what_is_before() -> None:
    model = decoder(("attention",), positions=["none"], num_hidden_layers=1)
    tokens = torch.tensor([[3, 9, 4, 7, 5]])
    changed = tokens[:, [2, 0, 3, 1, 4]]
    torch.testing.assert_close(model(tokens).logits[:, -1], model(changed).logits[:, -1])
    told = decoder(("attention",), positions=["rope"], num_hidden_layers=1)
    assert not torch.allclose(told(tokens).logits[:, -1], told(changed).logits[:, -1], atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 3))
def test_a_window_block_by_block_is_the_masked_one_with_its_gradients(window: int, steps: int, batch: int) -> None:
    made = torch.randn(3, batch, 2, steps, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(steps))
    mask = torch.ones(steps, steps, dtype=torch.bool).tril().triu(1 - window)
    found = []
    for attend in (
        lambda *qkv: windowed_attention(*qkv, window),
        lambda *qkv: F.scaled_dot_product_attention(*qkv, attn_mask=mask),
    ):
        qkv = made.clone().requires_grad_()
        with torch.enable_grad():
            y = attend(*qkv)
            y.square().sum().backward()
        found.append((y.detach(), qkv.grad))
    torch.testing.assert_close(found[0], found[1])


def test_a_window_as_long_as_the_sequence_is_full_attention_to_the_bit() -> None:
    tokens = torch.randint(0, 40, (2, 30))
    full = decoder(("attention",))(tokens).logits
    assert torch.equal(decoder(("attention",), window=30)(tokens).logits, full)
    assert not torch.equal(decoder(("attention",), window=29)(tokens).logits, full)


@torch.no_grad()
def test_normalised_queries_and_keys_do_not_change_with_the_size_of_their_weights() -> None:
    mixer = decoder(("attention",), qk_norm=True).layers[0].mixer
    x = torch.randn(2, 12, 32)
    before = mixer(x)
    mixer.qkv_proj.weight[:64] *= 7.0
    torch.testing.assert_close(mixer(x), before, atol=1e-4, rtol=0)


@torch.no_grad()
def test_an_output_gate_closes_and_wider_values_make_a_larger_state() -> None:
    mixer = decoder(("gated_deltanet",)).layers[0].mixer
    x = torch.randn(2, 12, 32)
    assert mixer(x).abs().max() > 0
    mixer.gate_proj.weight.zero_()  # SiLU(0) is 0
    assert not mixer(x).any()
    sizes = [decoder(("gated_deltanet",), expand_v=n).mixers()[0].state_floats()[0] for n in (1, 2, 4)]
    assert sizes == [2 * 16 * 16, 2 * 16 * 32, 2 * 16 * 64]


def test_every_mixer_is_by_default_as_published() -> None:
    """flash-linear-attention's and mamba_ssm's defaults: fla/layers/{delta_net, gated_deltanet, gated_deltaproduct, mamba2}.py."""
    states = {name: decoder((name,)).mixers()[0].state_floats() for name in MIXERS}
    assert states == {
        "attention": (0, 2 * 32),
        "deltanet": (2 * 16 * 16, 0),
        "gated_deltanet": (2 * 16 * 32, 0),
        "deltaproduct": (2 * 16 * 32, 0),
        "mamba": (2 * 32 * 16, 0),
        "mamba2": (2 * 32 * 128, 0),
        "mamba3": (2 * 32 * 128 + 4 * (32 + 128 + 16), 0),
        "gru": (32, 0),
        "lstm": (64, 0),
        "rwkv7": (2 * 16 * 16, 0),
        "path_attention": (0, 2 * 32),
    }
    gates = {
        name: "gate_proj" in dict(decoder((name,)).mixers()[0].named_children()) for name in MIXERS if "delta" in name
    }
    assert gates == {"deltanet": False, "gated_deltanet": True, "deltaproduct": True}


@pytest.mark.parametrize("mixers", ALL, ids="+".join)
@torch.no_grad()
def test_no_token_sees_the_future(mixers: tuple[str, ...]) -> None:
    model = decoder(mixers)
    tokens = torch.randint(0, 40, (2, 50))
    changed = tokens.clone()
    changed[:, 30:] = torch.randint(0, 40, (2, 20))
    torch.testing.assert_close(model(tokens).logits[:, :30], model(changed).logits[:, :30], atol=1e-5, rtol=0)


@pytest.mark.parametrize("mixers", ALL, ids="+".join)
def test_every_parameter_gets_a_gradient(mixers: tuple[str, ...]) -> None:
    model = decoder(mixers).train()
    tokens = torch.randint(0, 40, (2, 20))
    model(tokens, labels=tokens).loss.backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []


def test_mamba_is_transformers_mamba() -> None:
    """The same weights in Transformers' own mixer give the same outputs."""
    from transformers import MambaConfig
    from transformers.models.mamba.modeling_mamba import MambaMixer

    ours = decoder(("mamba",)).layers[0].mixer
    theirs = MambaMixer(MambaConfig(hidden_size=32, state_size=16, num_hidden_layers=1), 0)
    renamed = {name.replace("convolution.conv1d", "conv1d"): value for name, value in ours.state_dict().items()}
    theirs.load_state_dict(renamed)
    x = torch.randn(2, 21, 32)
    torch.testing.assert_close(ours(x), theirs(x), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_mamba2_is_transformers_mamba2_with_its_published_state() -> None:
    from transformers import Mamba2Config
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

    ours = decoder(("mamba2",)).layers[0].mixer
    usual = Mamba2Config()
    assert usual.state_size == 128
    theirs = Mamba2Mixer(Mamba2Config(hidden_size=32, num_heads=4, head_dim=16, n_groups=1, state_size=128), 0)
    renamed = {name.replace("convolution.conv1d", "conv1d"): value for name, value in ours.state_dict().items()}
    theirs.load_state_dict(renamed)
    x = torch.randn(2, 21, 32)
    torch.testing.assert_close(ours(x), theirs(x), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_gated_deltanet_is_transformers_with_output_gate_and_wider_values() -> None:
    """Qwen3-Next's layer is Gated DeltaNet as published: the same weights give the same outputs."""
    from transformers import Qwen3NextConfig
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

    ours = decoder(("gated_deltanet",), eigenvalues="positive").layers[0].mixer
    sizes = {"linear_key_head_dim": 16, "linear_value_head_dim": 32}
    heads = {"linear_num_key_heads": 2, "linear_num_value_heads": 2}
    theirs = Qwen3NextGatedDeltaNet(Qwen3NextConfig(hidden_size=32, rms_norm_eps=1e-12, **sizes, **heads), 0)
    ours.out_norm.eps = 1e-12  # theirs scales queries by 1/4, which the norm undoes but for this
    ours.beta_proj.bias.zero_()  # biases are the only other difference
    ours.convolution.conv1d.bias.zero_()
    q, k, v = ours.qkv_proj.weight.split([32, 32, 64])
    by_head = [part.unflatten(0, (2, -1)) for part in (q, k, v, ours.gate_proj.weight)]
    theirs.in_proj_qkvz.weight.copy_(torch.cat(by_head, 1).flatten(0, 1))
    rates = [part.unflatten(0, (2, -1)) for part in (ours.beta_proj.weight, ours.decay_proj.weight)]
    theirs.in_proj_ba.weight.copy_(torch.cat(rates, 1).flatten(0, 1))
    for name in ("A_log", "dt_bias"):
        getattr(theirs, name).copy_(getattr(ours, name))
    theirs.conv1d.weight.copy_(ours.convolution.conv1d.weight)
    theirs.norm.weight.copy_(ours.out_norm.weight)
    theirs.out_proj.weight.copy_(ours.out_proj.weight)
    x = torch.randn(2, 70, 32)
    torch.testing.assert_close(ours(x), theirs(x), atol=1e-4, rtol=1e-2)


@torch.no_grad()
def test_rwkv7_is_its_papers_equations_token_by_token() -> None:
    """Peng et al., 2025, section 4, of one row and one head at a time, without the value residual."""
    mixer: Any = decoder(("rwkv7",)).layers[0].mixer
    x, width, size = torch.randn(19, 32), 32, 16
    state, before, found = torch.zeros(2, size, size), torch.zeros(width), []
    for token in x:
        shifted = {name: token + getattr(mixer, f"shift_{name}") * (before - token) for name in "rwkvag"}
        before = token
        r, key, v = (getattr(mixer, f"{name}_proj").weight @ shifted[name] for name in "rkv")
        low = {name: getattr(mixer, f"{name}_lora") for name in "wag"}
        d = low["w"].up.weight @ torch.tanh(low["w"].down.weight @ shifted["w"]) + low["w"].up.bias
        w = torch.exp(-math.exp(-0.5) * torch.sigmoid(d))
        a = torch.sigmoid(low["a"].up.weight @ low["a"].down.weight @ shifted["a"] + low["a"].up.bias)
        gate = low["g"].up.weight @ torch.sigmoid(low["g"].down.weight @ shifted["g"])
        replaced = key * (1 + (a - 1) * mixer.k_a)
        heads = []
        for head in range(2):
            part = slice(head * size, (head + 1) * size)
            kappa = (key * mixer.k_k)[part] / (key * mixer.k_k)[part].norm()
            transition = torch.diag(w[part]) - torch.outer(kappa, a[part] * kappa)
            state[head] = state[head] @ transition + torch.outer(v[part], replaced[part])
            y = state[head] @ r[part]
            y = (y - y.mean()) / (y.var(unbiased=False) + size * 1e-5).sqrt()
            y = y * mixer.out_norm.weight[part] + mixer.out_norm.bias[part]
            heads.append(y + (r[part] * mixer.r_k[head] * replaced[part]).sum() * v[part])
        found.append(mixer.out_proj.weight @ (torch.cat(heads) * gate))
    torch.testing.assert_close(mixer(x[None])[0], torch.stack(found), atol=1e-4, rtol=1e-3)


@torch.no_grad()
def test_mamba3_is_its_papers_recurrence_of_a_complex_state() -> None:
    """Lahoti et al., 2026: a complex number for each pair of channels that turns; token by token, one head at a time."""
    mixer: Any = decoder(("mamba3",), state_size=16).layers[0].mixer
    for parameter in mixer.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    x = torch.randn(19, 32)
    gate, u, b, c, step, rate, mix, angle = (mixer.in_proj.weight @ x.T).T.split(mixer.sizes, -1)
    found = []
    for head in range(4):
        part = slice(head * 16, (head + 1) * 16)
        state = torch.zeros(12, 16, dtype=torch.complex64)  # four complex numbers, and eight channels that are real
        before, outputs = torch.zeros_like(state), []
        for t in range(len(x)):
            size = F.softplus(step[t, head] + mixer.dt_bias[head])
            eigenvalues = -F.softplus(rate[t, head]) - 1j * F.pad(math.pi * angle[t].tanh(), (0, 8))
            key, query = (
                torch.cat([torch.complex(one[:8:2], one[1:8:2]), one[8:].to(torch.complex64)])
                for one in (mixer.b_norm(b[t]) + mixer.B_bias[head], mixer.c_norm(c[t]) + mixer.C_bias[head])
            )
            arriving, m = torch.outer(key, u[t, part].to(torch.complex64)), mix[t, head].sigmoid()
            state = torch.exp(size * eigenvalues)[:, None] * (state + (1 - m) * size * before) + m * size * arriving
            before = arriving
            outputs.append((query.conj() @ state).real + mixer.D[head] * u[t, part])
        found.append(torch.stack(outputs))
    expected = (torch.cat(found, 1) * F.silu(gate)) @ mixer.out_proj.weight.T
    torch.testing.assert_close(mixer(x[None])[0], expected, atol=1e-3, rtol=1e-3)


@torch.no_grad()
def test_path_attention_is_its_papers_equations_token_by_token() -> None:
    """Yang et al., 2025, of one head at a time; keys are turned by every token, as its section on inference has it."""
    mixer: Any = decoder(("path_attention",)).layers[0].mixer
    x = torch.randn(19, 32)
    lines = F.pad((mixer.w_up.weight @ mixer.w_down.weight @ x.T), (2, 0)).unfold(1, 3, 1)
    lines = F.silu((lines * mixer.convolution.conv1d.weight).sum(-1) + mixer.convolution.conv1d.bias[:, None]).T
    q, k, v = (mixer.qkv_proj.weight @ x.T).T.chunk(3, dim=-1)
    found = []
    for head in range(2):
        part = slice(head * 16, (head + 1) * 16)
        keys, outputs = torch.zeros(0, 16), []
        for t in range(len(x)):
            w = lines[t, part] / lines[t, part].norm()
            beta = 2 * torch.sigmoid(mixer.beta_proj.weight[head] @ x[t] + mixer.beta_proj.bias[head])
            keys = torch.cat([keys - beta * torch.outer(keys @ w, w), k[t : t + 1, part]])
            outputs.append((keys @ q[t, part] / 4).softmax(0) @ v[: t + 1, part])
        found.append(torch.stack(outputs))
    expected = torch.cat(found, 1) @ mixer.out_proj.weight.T
    torch.testing.assert_close(mixer(x[None])[0], expected, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_keys_that_were_turned_are_not_cut_back() -> None:
    model = decoder(("path_attention",))
    reader = ModelReader(model)
    assert (reader.report()["form"], reader.report()["rewind"]) == ("together", "copy")
    cache = model.new_cache()
    cache.activate_past_recording()
    with pytest.raises(RuntimeError, match="cannot be cut back"):
        model(torch.zeros(1, 3, dtype=torch.long), past_key_values=cache)


@torch.no_grad()
def test_attention_with_a_window_and_normalised_queries_is_transformers_qwen3() -> None:
    from transformers import Qwen3Config, Qwen3Model

    ours = decoder(("attention",), window=7, qk_norm=True, rope_theta=500.0, num_hidden_layers=1)
    config = Qwen3Config(
        hidden_size=32,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        num_hidden_layers=1,
        intermediate_size=88,
        vocab_size=40,
        rms_norm_eps=1e-5,
        sliding_window=7,
        use_sliding_window=True,
        max_window_layers=0,
        layer_types=["sliding_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
    )
    theirs = Qwen3Model(config).eval()
    ours.layers[0].mixer.q_norm.weight.copy_(torch.rand(16) + 0.5)
    block, theirs_block = ours.layers[0], theirs.layers[0]
    q, k, v = block.mixer.qkv_proj.weight.chunk(3)
    pairs = [
        (theirs.embed_tokens.weight, ours.embeddings.weight),
        (theirs_block.self_attn.q_proj.weight, q),
        (theirs_block.self_attn.k_proj.weight, k),
        (theirs_block.self_attn.v_proj.weight, v),
        (theirs_block.self_attn.o_proj.weight, block.mixer.out_proj.weight),
        (theirs_block.self_attn.q_norm.weight, block.mixer.q_norm.weight),
        (theirs_block.mlp.gate_proj.weight, block.mlp.gate_proj.weight),
        (theirs_block.mlp.up_proj.weight, block.mlp.up_proj.weight),
        (theirs_block.mlp.down_proj.weight, block.mlp.down_proj.weight),
    ]
    for target, value in pairs:
        target.copy_(value)
    tokens = torch.randint(0, 40, (2, 40))
    hidden = theirs(tokens).last_hidden_state
    torch.testing.assert_close(ours(tokens).logits, ours.lm_head(hidden), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "name", ["mamba", "mamba2", "mamba3", "deltanet", "gated_deltanet", "deltaproduct", "rwkv7", "path_attention"]
)
def test_half_precision_changes_little(name: str) -> None:
    model = decoder((name,))
    tokens = torch.randint(0, 40, (2, 60))
    full = model(tokens).logits
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = model(tokens).logits
    assert (half.float() - full).abs().max() < 0.05


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


@pytest.mark.parametrize("chosen", [-6.0, 6.0])
def test_training_comes_back_from_a_closed_end(chosen: float) -> None:
    mixer = decoder(("deltanet",), eigenvalues="closed").layers[0].mixer
    assert isinstance(mixer, DeltaNet)
    bias = torch.nn.init.constant_(mixer.beta_proj.bias, chosen)
    mixer._beta(torch.zeros(1, 1, 32)).sum().backward()
    assert bias.grad is not None
    assert (bias.grad > 1e-3).all()


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


def test_one_reflection_swaps_two_values() -> None:
    keys = torch.eye(8, dtype=torch.float64)[:2]
    state = torch.zeros(1, 1, 8, 8, dtype=torch.float64)
    state[0, 0, 0], state[0, 0, 1] = 3.0, 7.0
    swap = F.normalize(keys[0] - keys[1], dim=0)[None, None, None]
    zero, two = torch.zeros_like(swap), torch.full((1, 1, 1), 2.0, dtype=torch.float64)
    _, after = delta_rule_chunked(swap, swap, zero, two, None, state)
    torch.testing.assert_close(after[0, 0, :2, 0], torch.tensor([7.0, 3.0], dtype=torch.float64))
