"""Several seeds (members) of one decoder as a batch dimension of one model.

Small models take as long as launching their kernels. Parameters are (M, ...), activations have M B rows, the first member's first.
Modules with parameters multiply by member; all else works on rows. A mixer sees its own parameters per row, (M B, 1, ...).

Members differ from single models by rounding, which training amplifies: after 30 steps losses were within 1e-6 (attention) to 0.05
(RWKV-7), as when initial weights change by one part in ten million. A NaN does not spread to other members.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remedy.models.cache import MixerCache
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.mixers.base import Mixer
from remedy.models.mixers.short_convolution import ShortConvolution
from remedy.settings import UserError

IGNORED = -100
TOLERANCE = 1e-3  # of logits: far above rounding, far below the difference of another function


class _Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.transpose(1, 2)
        flat = x.reshape(len(weight), -1, x.shape[-1])
        y = flat @ weight if self.bias is None else torch.baddbmm(self.bias[:, None], flat, weight)
        return y.view(*x.shape[:-1], -1)


class _Embedding(nn.Embedding):
    def forward(self, ids: Tensor) -> Tensor:
        members, size, _ = self.weight.shape
        first = torch.arange(members, device=ids.device)[:, None] * size
        return F.embedding((ids.view(members, -1) + first).view(ids.shape), self.weight.flatten(0, 1))


class _RMSNorm(nn.RMSNorm):
    def forward(self, x: Tensor) -> Tensor:
        return _scaled(F.rms_norm(x, self.normalized_shape, None, self.eps), self.weight).to(x.dtype)


class _GroupNorm(nn.GroupNorm):
    def forward(self, x: Tensor) -> Tensor:
        return _scaled(F.group_norm(x, self.num_groups, None, None, self.eps), self.weight, self.bias)


class _ShortConvolution(ShortConvolution):
    def forward(self, x: Tensor, cache: MixerCache | None) -> Tensor:
        weight = next(p for p in self.parameters() if p.ndim == 4).squeeze(2)  # (M, C, k)
        bias = next(p for p in self.parameters() if p.ndim == 2)
        padded = F.pad(x, (0, 0, weight.shape[-1] - 1, 0)).unflatten(0, (len(weight), -1))
        y: Tensor = bias[:, None, None]
        for offset, by_channel in enumerate(weight.unbind(-1)):
            y = torch.addcmul(y, padded[:, :, offset : offset + x.shape[1]], by_channel[:, None, None])
        y = y.flatten(0, 1).to(x.dtype)  # under autocast, float32 weights made it float32
        return F.silu(y) if self.activation == "silu" else y


class _Steps(nn.RNNBase):
    """A recurrence token by token from a zero state, with weights per member."""

    weight_ih_l0: Tensor
    weight_hh_l0: Tensor
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor

    def flatten_parameters(self) -> None:
        """Do nothing: cuDNN's layout is for one member's weights."""

    def _input_gates(self, x: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        """Compute the input's part of the gates: T tensors (M, B, gates)."""
        members = len(bias)
        gates = torch.baddbmm(bias[:, None], x.reshape(members, -1, x.shape[-1]), self.weight_ih_l0.transpose(1, 2))
        return gates.view(members, -1, x.shape[1], gates.shape[-1]).unbind(2)

    def _start(self, input_gates: Sequence[Tensor]) -> Tensor:
        return input_gates[0].new_zeros(*input_gates[0].shape[:2], self.hidden_size)


class _GRU(_Steps, nn.GRU):
    def forward(self, x: Tensor, state: None = None) -> Any:  # type: ignore[override]
        input_gates = self._input_gates(x, self.bias_ih_l0)
        weight, bias = self.weight_hh_l0.transpose(1, 2), self.bias_hh_l0[:, None]
        h, outputs, sizes = self._start(input_gates), [], [2 * self.hidden_size, self.hidden_size]
        for gates in input_gates:
            (of_input, new), (of_state, of_candidate) = (
                gates.split(sizes, -1),
                torch.baddbmm(bias, h, weight).split(sizes, -1),
            )
            r, z = torch.sigmoid(of_input + of_state).chunk(2, -1)
            h = torch.lerp(torch.tanh(torch.addcmul(new, r, of_candidate)), h, z)
            outputs.append(h)
        return torch.stack(outputs, 2).flatten(0, 1), h.flatten(0, 1)[None]


class _LSTM(_Steps, nn.LSTM):
    def forward(self, x: Tensor, state: None = None) -> Any:  # type: ignore[override]
        input_gates = self._input_gates(x, self.bias_ih_l0 + self.bias_hh_l0)
        weight, size = self.weight_hh_l0.transpose(1, 2), self.hidden_size
        h = c = self._start(input_gates)
        outputs = []
        for gates in input_gates:
            first, new, last = torch.baddbmm(gates, h, weight).split([2 * size, size, size], -1)
            i, f = torch.sigmoid(first).chunk(2, -1)
            c = torch.addcmul(f * c, i, torch.tanh(new))
            h = torch.sigmoid(last) * torch.tanh(c)
            outputs.append(h)
        return torch.stack(outputs, 2).flatten(0, 1), (h.flatten(0, 1)[None], c.flatten(0, 1)[None])


KINDS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: _Linear,
    nn.Embedding: _Embedding,
    nn.RMSNorm: _RMSNorm,
    nn.GroupNorm: _GroupNorm,
    nn.GRU: _GRU,
    nn.LSTM: _LSTM,
    ShortConvolution: _ShortConvolution,
}
"""Modules with parameters, and those that compute the same with parameters (M, ...)."""


def stack(models: Sequence[DecoderForCausalLM]) -> DecoderForCausalLM:
    """Stack decoders of one configuration into one, whose parameters are (M, ...).

    The model reads ids (M B, T), the first member's rows first; no cache, no packing.

    Raises:
        UserError: a module cannot be stacked.
    """
    stacked = copy.deepcopy(models[0])
    parameters = [dict(model.named_parameters()) for model in models]
    owner_prefix = ""
    for name, module in stacked.named_modules():
        if owner_prefix and name.startswith(owner_prefix):
            continue  # the enclosing module uses its parameters
        owner_prefix = ""
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.p:
            raise UserError(f"{name}: drops out at random, and members would not draw what each draws alone")
        kind = KINDS.get(type(module))
        if kind is not None:
            module.__class__, owner_prefix = kind, f"{name}."
        elif isinstance(module, Mixer):
            if list(module.named_parameters(recurse=False)):
                module.register_forward_pre_hook(_expand_by_row)
                module.register_forward_hook(_restore, always_call=True)
        elif [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
            raise UserError(
                f"{name}: a {type(module).__name__} cannot be stacked, since nothing says how its parameters are used"
            )
    for name in parameters[0]:
        owner, _, leaf = name.rpartition(".")
        together = torch.stack([tensors[name].detach() for tensors in parameters])
        setattr(stacked.get_submodule(owner), leaf, nn.Parameter(together, parameters[0][name].requires_grad))
    _check_logits(stacked, models)
    return stacked


def losses(
    model: DecoderForCausalLM,
    ids: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    smoothing: float = 0.0,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Sum each member's losses and count its tokens, both weighted; (M,) each.

    Ids, labels, mask and weights are (M B, T). Only supervised tokens count.
    """
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1]
    targets = labels[:, 1:]
    token_losses = F.cross_entropy(
        logits.flatten(0, 1).float(),
        targets.flatten(),
        ignore_index=IGNORED,
        reduction="none",
        label_smoothing=smoothing,
    )
    token_weights = targets != IGNORED if weights is None else weights[:, 1:]
    if weights is not None:
        token_losses = token_losses * token_weights.flatten()
    members = members_of(model)
    return token_losses.view(members, -1).sum(1), token_weights.reshape(members, -1).sum(1)


def members_of(model: DecoderForCausalLM) -> int:
    return int(model.norm.weight.shape[0])


@torch.no_grad()
def clip_by_member(parameters: Iterable[nn.Parameter], most: float) -> Tensor:
    """Clip each member's gradient norm to `most`, and return the norms before, (M,)."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    norms: Tensor = torch.stack([g.flatten(1).norm(dim=1) for g in gradients]).norm(dim=0)
    scales = (most / (norms + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(gradients, [scales.view(-1, *[1] * (g.ndim - 1)) for g in gradients])
    return norms


def _scaled(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply x (M B, ..., C) by weights (M, C), and add biases."""
    by_member = x.unflatten(0, (len(weight), -1))
    shape = (len(weight), *[1] * (by_member.ndim - 2), -1)
    y = by_member * weight.view(shape)
    shifted: Tensor = y if bias is None else y + bias.view(shape)
    return shifted.flatten(0, 1)


def _expand_by_row(module: nn.Module, inputs: tuple[Any, ...]) -> None:
    """Show a module its own parameters as (M B, 1, ...) while it runs."""
    for name, parameter in module.named_parameters(recurse=False):
        rows = parameter[:, None].expand(-1, len(inputs[0]) // len(parameter), *parameter.shape[1:])
        module.__dict__[name] = rows.flatten(0, 1)[:, None]


def _restore(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
    for name, _ in module.named_parameters(recurse=False):
        module.__dict__.pop(name, None)


@torch.no_grad()
def _check_logits(stacked: DecoderForCausalLM, models: Sequence[DecoderForCausalLM]) -> None:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(models[0].config.vocab_size, (len(models), 3, 5), generator=generator)
    ids = ids.to(models[0].device)
    training = stacked.training
    stacked.eval()
    try:
        together = stacked(input_ids=ids.flatten(0, 1), use_cache=False).logits
    except RuntimeError as error:
        raise UserError(f"model.mixers: {_mixers(models[0])} cannot be stacked ({error})") from None
    stacked.train(training)
    for model, member_ids, logits in zip(models, ids, together.unflatten(0, (len(models), -1)), strict=True):
        model.eval()
        alone = model(input_ids=member_ids, use_cache=False).logits
        model.train(training)
        if not torch.allclose(logits, alone, rtol=TOLERANCE, atol=TOLERANCE):
            raise UserError(
                f"model.mixers: {_mixers(models[0])} cannot be stacked: members compute something else together"
            )


def _mixers(model: DecoderForCausalLM) -> str:
    return ", ".join(dict.fromkeys(model.config.layer_mixers))
