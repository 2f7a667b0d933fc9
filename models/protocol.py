"""What this project asks of a causal language model: a decoder of ours, a pretrained model, or one with adapters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from torch import Tensor, nn


class CausalLMOutput(Protocol):
    """What a call gives back: logits (B, T, V), the state to go on from, and with labels the mean loss."""

    @property
    def logits(self) -> Tensor: ...

    @property
    def past_key_values(self) -> Any: ...

    @property
    def loss(self) -> Tensor | None: ...


class CausalLM(Protocol):
    """A Transformers causal language model, as far as it is used here."""

    @property
    def config(self) -> Any:
        """Transformers' configuration: `model_type`, `hidden_size`, `num_hidden_layers` and what the architecture adds."""

    def __call__(self, input_ids: Tensor, **kwargs: Any) -> CausalLMOutput:
        """`input_ids` (B, T); `past_key_values`, `use_cache`, `logits_to_keep` and `labels` as in Transformers."""

    def get_input_embeddings(self) -> Any: ...

    def get_output_embeddings(self) -> Any: ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def state_dict(self) -> Mapping[str, Tensor]: ...

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]: ...
