"""The loss at supervised tokens, computed in chunks to save memory.

With a vocabulary of 128,256, a token's logits and their gradient take a megabyte in float32.
So the output embeddings turn the hidden states (B, T, D) before supervised tokens into losses, in chunks. The backward
pass computes all but one chunk again (Chen et al., "Training deep nets with sublinear memory cost", 2016).

Every wrapper allows it there: ZeRO-3 and FSDP2 have whole weights only inside their module's call, DistributedDataParallel
wants all used inside the model's, and PEFT puts adapters inside the module.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from remedy.models.protocol import CausalLM

CHUNK = 2**26
"""Logits of a chunk: 256 MiB in float32, 523 tokens with Llama-3's vocabulary."""
IGNORED = -100


class Head:
    """Output embeddings that return losses in place of logits while given labels.

    `classes`: the vocabulary size. `smoothing`: the share of each target's probability spread over all classes in
    training.
    """

    def __init__(self, model: CausalLM, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing
        self.module = _owner(model.get_output_embeddings())
        self.classes = int(model.config.get_text_config().vocab_size)
        self._project: Callable[..., Tensor] = self.module and self.module.forward
        self._answer: Any = None
        self._active = False  # all that a compiled graph reads
        if self.module is not None:
            self.module.forward = self._forward

    def remove(self) -> None:
        """Restore the model."""
        if self.module is not None:
            del self.module.forward

    def refusal(self, model: CausalLM, device: torch.device) -> str | None:
        """Say why a Transformers model in evaluation mode needs all logits, or None.

        It must not change its head's logits, and its loss must be their mean cross entropy.
        """
        if self.module is None:
            return "the model names no output embeddings"
        if any(hasattr(p, "ds_id") for part in self.module.children() for p in part.parameters()):
            # Each chunk would gather them, and processes with different numbers of chunks would deadlock.
            return "ZeRO-3 divides weights of modules inside the output embeddings (adapters)"
        tokens = torch.arange(3, 7, device=device)[None] % self.classes
        # Wide enough for soft caps to show: those of Gemma 2, RecurrentGemma and xLSTM are at 30.
        known = torch.linspace(-90, 90, self.classes, device=device).expand(*tokens.shape, -1)
        with torch.no_grad(), self._answering(lambda hidden: known):
            output: Any = model(tokens, labels=tokens, use_cache=False)
        expected = cross_entropy(known[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        if not torch.equal(output.logits, known):
            return "the model changes its head's logits"
        if not torch.allclose(output.loss, expected, rtol=1e-6):
            return "the model's loss is more than the cross entropy of its head's logits"
        return None

    @contextlib.contextmanager
    def learning(self, labels: Tensor, weights: Tensor | None = None) -> Iterator[None]:
        """Make the logits (B, T, 1) the sum of the losses of `labels`.

        Labels (B, T) of -100 are ignored; `weights` (B, T) multiply the losses.
        """

        def answer(hidden: Tensor) -> Tensor:
            supervised = labels[:, 1:] != IGNORED
            weighted = () if weights is None else (weights[:, 1:][supervised],)
            total = self._summed(hidden[:, :-1][supervised], labels[:, 1:][supervised], *weighted)
            return total.expand(*hidden.shape[:-1], 1)

        with self._answering(answer):
            yield

    @contextlib.contextmanager
    def scoring(self, labels: Tensor) -> Iterator[None]:
        """Make the logits (B, T, 2) a loss and a mistake (1 or 0).

        They precede each of the `labels` (B, T) that is not -100. No gradients are kept.
        """

        def answer(hidden: Tensor) -> Tensor:
            supervised = labels[:, 1:] != IGNORED
            scores = hidden.new_zeros(*hidden.shape[:-1], 2, dtype=torch.float32)
            chunks = self._chunks(hidden[:, :-1][supervised], labels[:, 1:][supervised])
            scores[:, :-1][supervised] = torch.cat([scored(self._logits(part), targets) for part, targets in chunks])
            return scores

        with self._answering(answer):
            yield

    @contextlib.contextmanager
    def _answering(self, answer: Any) -> Iterator[None]:
        self._answer, self._active = answer, True
        try:
            yield
        finally:
            self._answer, self._active = None, False

    def _forward(self, hidden: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self._answered(hidden) if self._active else self._project(hidden, *args, **kwargs)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _answered(self, hidden: Tensor) -> Tensor:
        answer: Tensor = self._answer(hidden)
        return answer

    def _logits(self, hidden: Tensor) -> Tensor:
        return self._project(hidden).float()

    def _chunks(self, *columns: Tensor) -> list[tuple[Tensor, ...]]:
        return list(zip(*(column.split(max(1, CHUNK // self.classes)) for column in columns)))

    def _summed(self, hidden: Tensor, targets: Tensor, *weights: Tensor) -> Tensor:
        """Sum the losses of `targets` (N,) given hidden states (N, D), times `weights` (N,)."""

        def loss(part: Tensor, targets_of_part: Tensor, *weight: Tensor) -> Tensor:
            reduction = "none" if weight else "sum"
            losses = cross_entropy(
                self._logits(part), targets_of_part, reduction=reduction, label_smoothing=self.smoothing
            )
            return losses @ weight[0] if weight else losses

        # One chunk need not be computed again: a full one, last, with which the backward pass begins.
        last, *others = self._chunks(hidden, targets, *weights)
        recomputed = [checkpoint(loss, *chunk, use_reentrant=False) for chunk in others]
        return torch.stack([*recomputed, loss(*last)]).sum()


def scored(logits: Tensor, targets: Tensor) -> Tensor:
    """Return loss and mistake (N, 2) of `targets` (N,) under float32 logits (N, V).

    A mistake is 1 if another token is likelier.
    """
    losses = cross_entropy(logits, targets, reduction="none")
    return torch.stack([losses, (logits.argmax(-1) != targets).float()], dim=-1)


def mean_loss(outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """Return a batch's mean loss from a learning head: a `compute_loss_func`.

    `num_items_in_batch`: supervised tokens, or the sum of their weights, in the step.
    """
    count = (labels[:, 1:] != IGNORED).sum() if num_items_in_batch is None else num_items_in_batch
    total: Tensor = outputs.logits[0, 0, 0]
    return total / torch.as_tensor(count, device=total.device).clamp(min=1)


def _owner(head: Any) -> Any:
    """Return the module with the head's weights, inside PEFT's `modules_to_save`."""
    copies = getattr(head, "modules_to_save", None)
    if isinstance(head, nn.Module) and isinstance(copies, nn.ModuleDict):
        return copies[head.active_adapter]  # type: ignore[index]
    return head
