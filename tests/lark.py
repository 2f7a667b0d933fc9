"""llguidance, which servers read grammars with, over one of this project's tokenizers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from remedy.models.tokenizer import TraceTokenizer


class _Vocabulary:
    """Tokens as llguidance takes them. All are special there: grammars over ids ask for no token's text."""

    bos_token_id = None

    def __init__(self, tokenizer: TraceTokenizer) -> None:
        self.eos_token_id = tokenizer.eos_id
        self.special_token_ids = list(range(tokenizer.vocab_size))
        self.tokens = [f"<|{token}|>".encode() for token in self.special_token_ids]

    def __call__(self, text: bytes) -> list[int]:
        raise NotImplementedError


class Matcher:
    """A text that is being written under a grammar."""

    def __init__(self, tokenizer: Any, grammar: str) -> None:
        """`tokenizer`: of `tokens_of`. Raises a ValueError for what is no grammar."""
        import llguidance

        self.matcher = llguidance.LLMatcher(tokenizer, llguidance.grammar_from("grammar", grammar), log_level=0)
        self.size: int = tokenizer.vocab_size
        self._check()

    def allowed(self) -> Tensor:
        """Which tokens may come next, (V,)."""
        mask = torch.frombuffer(bytearray(self.matcher.compute_bitmask()), dtype=torch.uint8)
        self._check()
        bits = (mask[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1
        return bits.flatten()[: self.size].bool()

    def take(self, token: int) -> None:
        if not self.matcher.is_stopped():
            self.matcher.consume_token(token)
            self._check()

    def _check(self) -> None:
        if error := self.matcher.get_error():
            raise ValueError(error)


def tokens_of(tokenizer: TraceTokenizer) -> Any:
    """A tokenizer's tokens for `Matcher`. Without llguidance the test that asks is skipped."""
    reason = "needs llguidance, with which servers read grammars: pip install llguidance"
    llguidance = pytest.importorskip("llguidance", reason=reason)
    wrapper = pytest.importorskip("llguidance._tokenizer", reason=reason).TokenizerWrapper
    return llguidance.LLTokenizer(wrapper(_Vocabulary(tokenizer)), slices=[])
