"""The script that says what a fine-tune did to a pretrained model's loss on texts of another kind."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from benchmarks import forgetting
from tests.models.test_tokenizer import pretrained


def saved(folder: Path, noise: float) -> str:
    """A Llama with random weights, and with so much noise added."""
    words = len(AutoTokenizer.from_pretrained(pretrained(folder, [])))
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=words, **shape))  # type: ignore[arg-type]
    with torch.no_grad():
        for weight in model.parameters():
            weight += noise * torch.randn_like(weight)
    model.save_pretrained(folder)
    return str(folder)


def test_what_is_as_it_was_forgets_nothing_and_what_is_spoilt_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [saved(tmp_path / name, noise) for name, noise in (("before", 0.0), ("same", 0.0), ("spoilt", 2.0))]
    monkeypatch.setattr(forgetting, "TEXTS", 3)
    monkeypatch.setattr(sys, "argv", ["forgetting.py", *paths])
    forgetting.main()
    before, same, spoilt = (line for line in capsys.readouterr().out.splitlines() if str(tmp_path) in line)
    assert "(" not in before.split("|")[2]
    assert re.findall(r"\(([^)]*)\)", same) == ["+0.000, +0.000 to +0.000"] * 2
    for change in re.findall(r"\(([^)]*)\)", spoilt):
        assert float(change.split(" to ")[0].split(", ")[1]) > 0.1


def test_texts_are_long_and_of_two_kinds() -> None:
    for texts in (forgetting.prose(), forgetting.modules()):
        assert len(texts) == len(set(texts)) == forgetting.TEXTS
        assert min(map(len, texts)) >= forgetting.CHARACTERS
