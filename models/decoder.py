"""A small decoder whose only varying part is the sequence mixer, chosen per layer: two architectures differ in nothing else.

Pre-norm blocks of a mixer and a SwiGLU MLP, RMSNorm, untied embeddings. It is a Transformers model: `save_pretrained`,
`AutoModelForCausalLM.from_pretrained` and `.generate` work once this module is imported.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoConfig, AutoModelForCausalLM, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from remedy.models.block import Block
from remedy.models.cache import MixerCache
from remedy.models.decoder_config import DecoderConfig
from remedy.models.mixers import Mixer
from remedy.models.packing import Packing
from remedy.models.positions import drawn_positions
from remedy.models.protocol import CausalLM

DEFAULT_STD = 0.02
"""Deviation of embeddings and head where `initializer_range` is not given, as GPT-2's."""


class DecoderForCausalLM(PreTrainedModel, GenerationMixin):
    """The decoder with a language-model head."""

    config: DecoderConfig
    config_class = DecoderConfig
    base_model_prefix = ""
    _supports_sdpa = True
    supports_gradient_checkpointing = True
    _is_stateful = True
    main_input_name = "input_ids"
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
        """Normal embeddings, head and projections, of the configured deviation; without one, projections are PyTorch's.

        What a mixer sets itself (decays, step sizes, norms, convolutions, classic recurrences) is its authors' and stays.
        """
        std = self.config.initializer_range
        if isinstance(module, nn.Embedding) or module is self.lm_head:
            nn.init.normal_(module.weight, std=DEFAULT_STD if std is None else std)
        elif isinstance(module, nn.Linear) and std is not None and id(module) not in self._initialised:
            nn.init.normal_(module.weight, std=std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        assert isinstance(value, nn.Embedding)
        self.embeddings = value

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def mixers(self) -> list[Mixer]:
        """The mixer of each layer."""
        return [layer.mixer for layer in self.layers if isinstance(layer, Block)]

    def new_cache(self) -> MixerCache:
        """An empty state, for step-by-step decoding."""
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
        """Logits (B, T, V), and with `labels` (B, T; -100 where not supervised) the mean loss of the supervised tokens.

        Inputs are left-aligned and padded on the right: causality makes a mask unnecessary, so `attention_mask` is
        accepted and must be all ones up to the padding; randomised positions alone read it. `past_key_values` carries the
        state of a previous call; a call that continues one may read any number of tokens with attention, one at a time with
        recurrent mixers. `position_ids` (B, T) are the places of tokens in their own examples, where rows hold several: each is
        read as if it stood alone. Beside `past_key_values`, which know how much was read, they are not looked at.
        """
        if use_cache and past_key_values is None:
            past_key_values = self.new_cache()
        x = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        packing = Packing(position_ids) if position_ids is not None and past_key_values is None else None
        positions: Tensor | list[Tensor | None] | None
        if packing is None:
            positions = self._positions(input_ids, attention_mask, past_key_values, x.shape[1])
        else:
            real = packing.real()
            apart = packing.apart(input_ids) if input_ids is not None else [None] * len(real)
            positions = [self._positions(ids, mask, None, mask.shape[1]) for ids, mask in zip(apart, real)]
        for layer in self.layers:
            x = layer(x, past_key_values=past_key_values, positions=positions, packing=packing)
        if past_key_values is not None:
            past_key_values.seen += x.shape[1]
        x = self.norm(x)
        logits = self.lm_head(x[:, -logits_to_keep:] if logits_to_keep else x)
        loss = None
        if labels is not None:
            targets = labels[:, 1:].reshape(-1)
            losses = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), targets, ignore_index=-100, reduction="sum")
            count = (targets != -100).sum() if num_items_in_batch is None else num_items_in_batch
            loss = losses / torch.as_tensor(count, device=losses.device).clamp(min=1)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=past_key_values)

    def _positions(
        self, tokens: Tensor | None, mask: Tensor | None, cache: MixerCache | None, steps: int
    ) -> Tensor | None:
        """The tokens' positions, (T,) or (B, T), where they do not simply count up: drawn in training, at even distances else."""
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
        places = torch.arange(steps, device=device) if cache is None else cache.places(steps, device)
        return places * (config.position_range // config.position_capacity)

    def _prepare_cache_for_generation(
        self, generation_config: Any, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> bool:
        if generation_config.use_cache is not False and model_kwargs.get("past_key_values") is None:
            model_kwargs["past_key_values"] = self.new_cache()
        return True


def parameter_count(model: CausalLM) -> int:
    """Number of trainable parameters, whole ones also where ZeRO-3 leaves a process a part of each."""
    return sum(int(getattr(p, "ds_numel", p.numel())) for p in model.parameters() if p.requires_grad)


AutoConfig.register(DecoderConfig.model_type, DecoderConfig, exist_ok=True)
AutoModelForCausalLM.register(DecoderConfig, DecoderForCausalLM, exist_ok=True)
