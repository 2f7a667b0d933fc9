"""Interface of a causal language model: our decoder, or a pretrained model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from torch import Tensor, nn


class CausalLMOutput(Protocol):
    """Output of a call: logits (B, T, V) and, with labels, the mean loss."""

    @property
    def logits(self) -> Tensor: ...

    @property
    def loss(self) -> Tensor | None: ...


class CausalLM(Protocol):
    """A Transformers causal language model, as used here."""

    @property
    def config(self) -> Any: ...

    def __call__(self, input_ids: Tensor, **kwargs: Any) -> CausalLMOutput:
        """Compute from `input_ids` (B, T), with Transformers' other arguments."""

    @property
    def forward(self) -> Any:
        """Return the method behind a call, whose signature names the cache's argument."""

    def get_input_embeddings(self) -> Any: ...

    def get_output_embeddings(self) -> Any: ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def state_dict(self) -> Mapping[str, Tensor]: ...

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]: ...
