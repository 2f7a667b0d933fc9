"""What others wrote is read whole, without running their code or unpickling, or refused in one line that says what is wrong."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

from remedy.models.loading import load_checkpoint
from remedy.settings import UserError
from tests.models.test_tokenizer import pretrained
from tests.tiny_models import tiny_model


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "base"
    words = len(AutoTokenizer.from_pretrained(pretrained(folder, [])))
    tiny_model("llama", words).save_pretrained(folder)
    return folder


def edited(**changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return edit


def without(*patterns: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        for pattern in patterns:
            for path in folder.glob(pattern):
                path.unlink()

    return remove


def pickled(folder: Path) -> None:
    model, _ = load_checkpoint(str(folder), "cpu")
    torch.save(dict(model.state_dict()), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def sharded(folder: Path) -> None:
    model: Any = load_checkpoint(str(folder), "cpu")[0]
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="60KB")
    assert len(list(folder.glob("model-*"))) > 1


def one_shard_lost(folder: Path) -> None:
    sharded(folder)
    (folder / "model-00002-of-00003.safetensors").unlink()


def cut(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


def encoder_and_decoder(folder: Path) -> None:
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    T5ForConditionalGeneration(T5Config(vocab_size=300, **sizes)).save_pretrained(folder)


def code(folder: Path) -> None:
    for name in ("configuration_x", "modeling_x", "tokenization_x"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n")


def remote(folder: Path) -> None:
    code(folder)
    names = {"AutoConfig": "configuration_x.C", "AutoModelForCausalLM": "modeling_x.M"}
    edited(model_type="of_their_own", auto_map=names)(folder)


def remote_tokenizer(folder: Path) -> None:
    code(folder)
    path = folder / "tokenizer_config.json"
    settings = {**json.loads(path.read_text()), "tokenizer_class": "T"}
    path.write_text(json.dumps({**settings, "auto_map": {"AutoTokenizer": ["tokenization_x.T", None]}}))


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no tokenizer": (without("*token*"), "there is no tokenizer beside the model"),
    "a pickle": (pickled, "pytorch_model.bin is a pickle, which can run any code and is never read here"),
    "a shard is lost": (one_shard_lost, "model-00002-of-00003.safetensors"),
    "half a file": (cut, "weights cannot be read (Error while deserializing header"),
    "an encoder and decoder": (encoder_and_decoder, "is not one that Transformers runs as a causal language model"),
    "code of its own": (remote, "it brings code of its own (`auto_map`), which is never run here"),
    "a tokenizer's own code": (remote_tokenizer, "it brings code of its own (`auto_map`), which is never run here"),
    "another width": (edited(hidden_size=64), "of its weights in another shape"),
    "an unknown kind": (edited(model_type="nosuch"), "`nosuch` but Transformers does not recognize"),
    "no configuration": (without("config.json"), "not a model folder or a reachable model"),
    "half a configuration": (
        lambda folder: (folder / "config.json").write_text('{"model_'),
        "is not a valid JSON file",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_one_line(name: str, base: Path, tmp_path: Path) -> None:
    change, says = REFUSED[name]
    folder = tmp_path / "model"
    shutil.copytree(base, folder)
    change(folder)
    with pytest.raises(UserError) as refused:
        load_checkpoint(str(folder), "cpu")
    assert says in str(refused.value)
    assert str(folder) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (folder / "ran").exists()
