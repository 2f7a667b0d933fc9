"""The loss at supervised tokens alone, in chunks: the logits of all tokens are never in memory at once.

With a vocabulary of 128,256 they are most of what training keeps: a token's logits and their gradient in float32 take a megabyte. Here
the output embeddings themselves answer with the loss: of the hidden states (B, T, D) those before a supervised token are taken, and
chunk by chunk made into logits and losses, which the backward pass computes again but for one (Chen et al., "Training deep nets
with sublinear memory cost", 2016).

Why there: it is the one place that every wrapper leaves alone. ZeRO-3 has weights whole only inside the call of the module that owns
them, in both passes; DistributedDataParallel wants all parameters used inside the call of the whole model; PEFT puts rows, copies and
adapters inside the module. A loss made of hidden states outside of the model would have to know each of them, and each
architecture's way to its hidden states. Why computed again, and not a gradient by hand in the forward pass: what is inside the
head may be anything that autograd differentiates.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from remedy.models.protocol import CausalLM

CHUNK = 2**26
"""Logits that are in memory at once: 256 MiB in float32, 523 tokens of Llama-3's vocabulary."""
IGNORED = -100


def tokens_at_once(classes: int) -> int:
    """Choose the number of tokens whose logits are in memory at once, for a vocabulary's size."""
    return max(1, CHUNK // classes)


class Head:
    """The output embeddings of a model, which answer with losses (B, T, 1) in the place of logits while they are told labels.

    `classes`: the size of the vocabulary. `smoothing`: the share of each target's probability that is spread over all of them where
    something is learnt. A model's own logits and losses are untouched while no labels are told.
    """

    def __init__(self, model: CausalLM, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing
        self.module = _owner(model.get_output_embeddings())
        self.classes = int(model.config.get_text_config().vocab_size)
        self._project = self.module.forward if self.module is not None else None
        self._answer: Any = None
        self._asked = False  # which is all that a compiler looks at
        if self.module is not None:
            self.module.forward = self._forward

    def remove(self) -> None:
        """Leave the model as it was."""
        if self.module is not None:
            del self.module.forward

    def refusal(self, model: CausalLM, device: torch.device) -> str | None:
        """Say why a model of Transformers', in evaluation mode, needs the logits of all tokens; None if it does not.

        It must add nothing behind its head: no scale and no cap of logits, and no loss but their mean cross entropy. To see that,
        the head is made to answer with known logits.
        """
        if self.module is None:
            return "the model names no output embeddings"
        if any(hasattr(p, "ds_id") for part in self.module.children() for p in part.parameters()):
            # Each chunk would make them whole by itself, and processes may have unlike numbers of chunks: they would wait for ever.
            return "ZeRO-3 divides weights of modules inside the output embeddings (adapters)"
        tokens = torch.arange(3, 7, device=device)[None] % self.classes
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
        """While it lasts, the model's logits are (B, T, 1): the sum of the losses of all `labels` (B, T) but -100, each times its
        weight where there are `weights` (B, T), at every place."""

        def answer(hidden: Tensor) -> Tensor:
            learnt = labels[:, 1:] != IGNORED
            weighted = () if weights is None else (weights[:, 1:][learnt],)
            total = self._summed(hidden[:, :-1][learnt], labels[:, 1:][learnt], *weighted)
            return total.expand(*hidden.shape[:-1], 1)

        with self._answering(answer):
            yield

    @contextlib.contextmanager
    def scoring(self, labels: Tensor) -> Iterator[None]:
        """While it lasts, the model's logits are (B, T, 2): before each of the `labels` (B, T) but -100 its loss, and 1 if another
        token is likelier. No gradients are kept."""

        def answer(hidden: Tensor) -> Tensor:
            learnt = labels[:, 1:] != IGNORED
            scores = hidden.new_zeros(*hidden.shape[:-1], 2, dtype=torch.float32)
            chunks = self._chunks(hidden[:, :-1][learnt], labels[:, 1:][learnt])
            scores[:, :-1][learnt] = torch.cat([scored(self._logits(part), targets) for part, targets in chunks])
            return scores

        with self._answering(answer):
            yield

    @contextlib.contextmanager
    def _answering(self, answer: Any) -> Iterator[None]:
        self._answer, self._asked = answer, True
        try:
            yield
        finally:
            self._answer, self._asked = None, False

    def _forward(self, hidden: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        assert self._project is not None
        answer: Tensor = self._answered(hidden) if self._asked else self._project(hidden, *args, **kwargs)
        return answer

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _answered(self, hidden: Tensor) -> Tensor:
        answer: Tensor = self._answer(hidden)
        return answer

    def _logits(self, hidden: Tensor) -> Tensor:
        assert self._project is not None
        logits: Tensor = self._project(hidden).float()
        return logits

    def _chunks(self, *columns: Tensor) -> list[tuple[Tensor, ...]]:
        return list(zip(*(column.split(tokens_at_once(self.classes)) for column in columns)))

    def _summed(self, hidden: Tensor, targets: Tensor, *weights: Tensor) -> Tensor:
        """The sum of the losses of `targets` (N,), given the hidden states (N, D) before them; with `weights` (N,) the weighted."""

        def loss(part: Tensor, wanted: Tensor, *weight: Tensor) -> Tensor:
            reduction = "none" if weight else "sum"
            found = cross_entropy(self._logits(part), wanted, reduction=reduction, label_smoothing=self.smoothing)
            return found @ weight[0] if weight else found

        # The backward pass begins with what was computed last, so that one chunk can be kept: a whole one.
        kept, *others = self._chunks(hidden, targets, *weights)
        again = [checkpoint(loss, *chunk, use_reentrant=False) for chunk in others]
        return torch.stack([*again, loss(*kept)]).sum()


def scored(logits: Tensor, targets: Tensor) -> Tensor:
    """Score `targets` (N,) under logits (N, V) in float32: the loss of each, and 1 if another token is likelier; (N, 2)."""
    losses = cross_entropy(logits, targets, reduction="none")
    return torch.stack([losses, (logits.argmax(-1) != targets).float()], dim=-1)


def mean_loss(outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """The mean loss of the batch's supervised tokens, of what a model gives while its head is learning: a `compute_loss_func`.

    `num_items_in_batch`: their number, or the sum of their weights, in all pieces of the step.
    """
    count = (labels[:, 1:] != IGNORED).sum() if num_items_in_batch is None else num_items_in_batch
    total: Tensor = outputs.logits[0, 0, 0]
    return total / torch.as_tensor(count, device=total.device).clamp(min=1)


def _owner(head: Any) -> Any:
    """The module that holds the head's weights, inside PEFT's wrapper of modules that are trained whole."""
    copies = getattr(head, "modules_to_save", None)
    if isinstance(head, nn.Module) and isinstance(copies, nn.ModuleDict):
        return copies[head.active_adapter]  # type: ignore[index]
    return head
