"""Interface of a causal language model: our decoder, a pretrained model, or one with adapters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from torch import Tensor, nn


class CausalLMOutput(Protocol):
    """Output of a call: logits (B, T, V) and, with labels, the mean loss; a state is in further fields."""

    @property
    def logits(self) -> Tensor: ...

    @property
    def loss(self) -> Tensor | None: ...


class CausalLM(Protocol):
    """A Transformers causal language model, as far as it is used here."""

    @property
    def config(self) -> Any:
        """Return Transformers' configuration: `model_type`, `hidden_size`, `num_hidden_layers` and others."""

    def __call__(self, input_ids: Tensor, **kwargs: Any) -> CausalLMOutput:
        """Compute from `input_ids` (B, T); other arguments as in Transformers, a state under its own name."""

    @property
    def forward(self) -> Any:
        """Return the method behind a call: its parameters show the state's name."""

    def get_input_embeddings(self) -> Any: ...

    def get_output_embeddings(self) -> Any: ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def state_dict(self) -> Mapping[str, Tensor]: ...

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]: ...
