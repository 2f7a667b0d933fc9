"""A pre-norm decoder with untied embeddings, whose only varying part is its mixer.

Importing this module makes `save_pretrained`, `from_pretrained` and `.generate` work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoConfig, AutoModelForCausalLM, GenerationMixin, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import CausalLMOutputWithPast

from remedy.models.cache import MixerCache
from remedy.models.decoder_config import DecoderConfig
from remedy.models.mixers import MIXERS
from remedy.models.mixers.base import Mixer
from remedy.models.positions import Packing, check_positions, drawn_positions, has_borders
from remedy.models.protocol import CausalLM


class GatedMLP(nn.Module):
    """SwiGLU (Shazeer, "GLU variants improve Transformer", 2020)."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x)))


class Block(GradientCheckpointingLayer):
    """x + mixer(norm(x)), then x + mlp(norm(x)); shapes (B, T, D)."""

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__()
        self.mixer_norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mixer = MIXERS[config.mixers[layer % len(config.mixers)]](config, layer)
        self.mlp_norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = GatedMLP(config)

    def forward(
        self,
        x: Tensor,
        past_key_values: MixerCache | None = None,
        positions: Tensor | Sequence[Tensor | None] | None = None,
        packing: Packing | None = None,
    ) -> Tensor:
        """Apply the block to x (B, T, D).

        `packing`: rows hold several examples; `positions` are then one per group.
        """
        normed = self.mixer_norm(x)
        if packing is None:
            mixed = self._mixed(normed, past_key_values, positions)
        else:
            assert isinstance(positions, Sequence)
            groups = zip(packing.split(normed), positions, strict=True)
            mixed = packing.join([self._mixed(group, None, group_positions) for group, group_positions in groups])
        x = x + mixed
        return cast(Tensor, x + self.mlp(self.mlp_norm(x)))

    def _mixed(self, x: Tensor, cache: MixerCache | None, positions: Any) -> Tensor:
        return cast(Tensor, self.mixer(x, cache, positions) if self.mixer.positional else self.mixer(x, cache))


DEFAULT_STD = 0.02
"""Standard deviation of embeddings and head by default, as in GPT-2."""
USUAL = {"return_dict": True, "output_attentions": False, "output_hidden_states": False}
"""Arguments that Transformers passes to every model, with the values that ask for nothing."""


class DecoderForCausalLM(PreTrainedModel, GenerationMixin):
    """The decoder with a language-model head."""

    config: DecoderConfig
    config_class = DecoderConfig
    base_model_prefix = ""
    _supports_sdpa = True
    supports_gradient_checkpointing = True
    _is_stateful = True
    main_input_name = "input_ids"
    _input_embed_layer = "embeddings"
    _no_split_modules = ["Block"]

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Block(config, layer) for layer in range(config.num_hidden_layers)])
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self._initialised = {id(module) for mixer in self.mixers() for module in mixer.initialised()}
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Initialise embeddings and head and, with `initializer_range`, linear layers.

        What a mixer initialises itself stays as published.
        """
        std = self.config.initializer_range
        if isinstance(module, nn.Embedding) or module is self.lm_head:
            nn.init.normal_(module.weight, std=DEFAULT_STD if std is None else std)
        elif isinstance(module, nn.Linear) and std is not None and id(module) not in self._initialised:
            nn.init.normal_(module.weight, std=std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def mixers(self) -> list[Mixer]:
        return [layer.mixer for layer in self.layers if isinstance(layer, Block)]

    def new_cache(self) -> MixerCache:
        """Return an empty cache."""
        return MixerCache(self.config.num_hidden_layers)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        past_key_values: MixerCache | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        logits_to_keep: int = 0,
        inputs_embeds: Tensor | None = None,
        position_ids: Tensor | None = None,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        """Compute logits (B, T, V) and, with `labels`, the mean loss.

        `labels` (B, T) are -100 where unsupervised. `attention_mask` (B, P + T) is 0 on padding, which must follow a row's tokens; the
        cache has P. `position_ids` (B, T) count from 0 in each example; a row's examples do not see each other.

        Raises:
            ValueError: an argument is not supported.
        """
        if unread := sorted(key for key, value in kwargs.items() if value is not None and value is not USUAL.get(key)):
            raise ValueError(f"{', '.join(unread)}: this decoder does not take that: leave it out")
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        if past_key_values is not None and not isinstance(past_key_values, MixerCache):
            raise ValueError(
                f"past_key_values: this decoder's states are in its own `new_cache()`, not {type(past_key_values).__name__}"
            )
        if use_cache and past_key_values is None:
            past_key_values = self.new_cache()
        x = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        check_positions(attention_mask, position_ids, x, past_key_values)
        x = self.norm(self._read(x, input_ids, attention_mask, past_key_values, position_ids))
        logits = self.lm_head(x[:, -logits_to_keep:] if logits_to_keep else x)
        loss = None
        if labels is not None:
            targets = labels[:, 1:].reshape(-1)
            losses = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), targets, ignore_index=-100, reduction="sum")
            count = (targets != -100).sum() if num_items_in_batch is None else num_items_in_batch
            loss = losses / torch.as_tensor(count, device=losses.device).clamp(min=1)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=past_key_values)

    def _read(
        self, x: Tensor, ids: Tensor | None, mask: Tensor | None, cache: MixerCache | None, position_ids: Tensor | None
    ) -> Tensor:
        packing = None
        if position_ids is not None and (cache is None or not cache.seen) and has_borders(position_ids):
            if cache is not None:
                raise ValueError(
                    "position_ids: a row of several examples leaves no state to go on from: set use_cache=False"
                )
            packing = Packing(position_ids.expand(x.shape[:2]))
        positions: Tensor | list[Tensor | None] | None
        if packing is None:
            positions = self._positions(ids, mask, cache, x.shape[1])
        else:
            masks = [group.real for group in packing.groups]
            apart = packing.split(ids) if ids is not None else [None] * len(masks)
            positions = [self._positions(group_ids, mask, None, mask.shape[1]) for group_ids, mask in zip(apart, masks)]
        for layer in self.layers:
            x = layer(x, past_key_values=cache, positions=positions, packing=packing)
        if cache is not None:
            cache.seen += x.shape[1]
        return x

    def _positions(
        self, tokens: Tensor | None, mask: Tensor | None, cache: MixerCache | None, steps: int
    ) -> Tensor | None:
        config = self.config
        if config.positions != "randomised":
            return None
        if self.training:
            if tokens is None:
                raise ValueError(
                    "randomised positions are drawn by input_ids: inputs_embeds alone cannot be trained on"
                )
            return drawn_positions(tokens, config.position_range, config.position_capacity, mask)
        device = self.embeddings.weight.device
        positions = torch.arange(steps, device=device) if cache is None else cache.positions(steps, device)
        return positions * (config.position_range // config.position_capacity)

    def _prepare_cache_for_generation(
        self, generation_config: Any, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> bool:
        if generation_config.cache_implementation is not None:
            raise ValueError(
                f"cache_implementation {generation_config.cache_implementation!r}: this decoder has one cache of its own: leave it out"
            )
        if generation_config.use_cache is not False and model_kwargs.get("past_key_values") is None:
            model_kwargs["past_key_values"] = self.new_cache()
        return True


def parameter_count(model: CausalLM) -> int:
    """Count trainable parameters; under ZeRO-3 those of all processes."""
    return sum(int(getattr(p, "ds_numel", p.numel())) for p in model.parameters() if p.requires_grad)


AutoConfig.register(DecoderConfig.model_type, DecoderConfig, exist_ok=True)
AutoModelForCausalLM.register(DecoderConfig, DecoderForCausalLM, exist_ok=True)
