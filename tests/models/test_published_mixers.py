"""Every mixer is as published: Transformers' own with the same weights, or its paper's equations."""

import math
from typing import Any

import torch
from torch.nn import functional as F

from remedy.models.mixers import MIXERS
from tests.models.small_decoders import decoder


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
        "gru": (32, 0),
        "lstm": (64, 0),
        "rwkv7": (2 * 16 * 16, 0),
        "path_attention": (0, 2 * 32),
    }
    gates = {
        name: "gate_proj" in dict(decoder((name,)).mixers()[0].named_children()) for name in MIXERS if "delta" in name
    }
    assert gates == {"deltanet": False, "gated_deltanet": True, "deltaproduct": True}


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
def test_attention_with_a_window_and_normalised_queries_is_transformers_qwen3() -> None:
    from transformers import Qwen3Config, Qwen3Model

    ours = decoder(("attention",), window=7, qk_norm=True, rope_theta=500.0, num_hidden_layers=1)
    sizes = {"hidden_size": 32, "intermediate_size": 88, "num_hidden_layers": 1, "vocab_size": 40, "rms_norm_eps": 1e-5}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16}
    window = {"sliding_window": 7, "use_sliding_window": True, "layer_types": ["sliding_attention"]}
    rope = {"rope_type": "default", "rope_theta": 500.0}
    theirs = Qwen3Model(Qwen3Config(**sizes, **heads, **window, rope_parameters=rope)).eval()
    block, mixer = theirs.layers[0], ours.layers[0].mixer
    mixer.q_norm.weight.copy_(torch.rand(16) + 0.5)
    theirs.embed_tokens.weight.copy_(ours.embeddings.weight)
    weights = dict(zip(("q_proj", "k_proj", "v_proj"), mixer.qkv_proj.weight.chunk(3)))
    for name, weight in {**weights, "o_proj": mixer.out_proj.weight, "q_norm": mixer.q_norm.weight}.items():
        getattr(block.self_attn, name).weight.copy_(weight)
    for name in ("gate_proj", "up_proj", "down_proj"):
        getattr(block.mlp, name).weight.copy_(getattr(ours.layers[0].mlp, name).weight)
    tokens = torch.randint(0, 40, (2, 40))
    hidden = theirs(tokens).last_hidden_state
    torch.testing.assert_close(ours(tokens).logits, ours.lm_head(hidden), atol=1e-5, rtol=1e-4)
