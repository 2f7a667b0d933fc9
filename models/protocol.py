"""Interface of a causal language model here: a decoder of ours, a pretrained model, or one with adapters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from torch import Tensor, nn


class CausalLMOutput(Protocol):
    """Output of a call: logits (B, T, V), and with labels the mean loss. A state to go on from is among its other fields."""

    @property
    def logits(self) -> Tensor: ...

    @property
    def loss(self) -> Tensor | None: ...


class CausalLM(Protocol):
    """A Transformers causal language model, as far as it is used here."""

    @property
    def config(self) -> Any:
        """Transformers' configuration: `model_type`, `hidden_size`, `num_hidden_layers` and what the architecture adds."""

    def __call__(self, input_ids: Tensor, **kwargs: Any) -> CausalLMOutput:
        """`input_ids` (B, T); `use_cache`, `logits_to_keep` and `labels` as in Transformers, and a state under its own name."""

    @property
    def forward(self) -> Any:
        """Return what a call runs: its parameters say under which name a state is taken."""

    def get_input_embeddings(self) -> Any: ...

    def get_output_embeddings(self) -> Any: ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def state_dict(self) -> Mapping[str, Tensor]: ...

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]: ...
