"""What others wrote is read whole, without running their code or unpickling, or refused in one line that says what is wrong."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

from remedy.models.loading import load_checkpoint, load_outline
from remedy.models.tokenizer import build_tokenizer
from remedy.models.tokenizer_backends import HuggingFaceSettings
from remedy.settings import UserError
from tests.eval.generators.serving import SYMBOLIC
from tests.models.test_tokenizer import pretrained
from tests.tiny_models import small_decoder, tiny_model, tokenizer_for


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "base"
    words = len(AutoTokenizer.from_pretrained(pretrained(folder, [])))
    tiny_model("llama", words).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "own"
    tokenizer = tokenizer_for(SYMBOLIC)
    small_decoder(tokenizer, ("gru", "attention")).save_pretrained(folder)
    tokenizer.save(folder)
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


def rewritten(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    read = json.loads(path.read_text())
    change(read)
    path.write_text(json.dumps(read))


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no tokenizer": (without("*token*"), "there is no tokenizer beside the model"),
    "a pickle": (pickled, "pytorch_model.bin is a pickle, which can run any code and is never read here"),
    "a shard is lost": (one_shard_lost, "model-00002-of-00003.safetensors"),
    "half a file": (cut, "weights cannot be read (Error while deserializing header"),
    "an encoder and decoder": (encoder_and_decoder, "is not one that Transformers runs as a causal language model"),
    "code of its own": (remote, "it brings code of its own (`auto_map`), which is never run here"),
    "a tokenizer's own code": (remote_tokenizer, "it brings code of its own (`auto_map`), which is never run here"),
    "another width": (edited(hidden_size=64), "of its weights in this shape"),
    "an unknown kind": (edited(model_type="nosuch"), "`nosuch` but Transformers does not recognize"),
    "no configuration": (without("config.json"), "not a model folder or a reachable model"),
    "a kernel's name": (
        edited(_attn_implementation="a/b"),
        "_attn_implementation is 'a/b' in its config.json, a kernel",
    ),
    "a huge configuration": (
        lambda folder: (folder / "config.json").open("a").truncate(12 << 30),
        "config.json: is empty or has more than 67,108,864 bytes",
    ),
    "a file of the kernel's": (
        lambda folder: [(folder / "config.json").unlink(), (folder / "config.json").symlink_to("/proc/kmsg")],
        "config.json: is empty or has more than",
    ),
    "a pickle as a shard": (
        lambda folder: [
            (folder / "model.safetensors").unlink(missing_ok=True),
            (folder / "x.bin").write_bytes(b"cposix\nabort\n(tR."),
            (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../x.bin"}})),
        ],
        "model.safetensors.index.json names '../x.bin', which is no safetensors file beside it",
    ),
    "an id beyond its vocabulary": (
        lambda folder: rewritten(
            folder / "tokenizer.json", lambda read: read["model"]["vocab"].update({"<|frame_sep|>": 2**31})
        ),
        "and the id 2,147,483,648: it is damaged",
    ),
    "half a configuration": (
        lambda folder: (folder / "config.json").write_text('{"model_'),
        "is not a valid JSON file",
    ),
}


@pytest.mark.parametrize("load", [load_outline, load_checkpoint])
@pytest.mark.parametrize(
    ("size", "value", "says"),
    [
        ("num_hidden_layers", 10**9, "is 1000000000 in its config.json, and no model has that"),
        ("num_hidden_layers", -1, "is -1 in its config.json, and no model has that"),
        ("num_labels", 10**9, "is 1000000000 in its config.json, and no model has that"),
        ("attention_types", [[["global"], 10**9]], "is 1000000000 in its config.json, and no model has that"),
        ("num_hidden_layers", 4_000, "describes a model of more weights than its files hold"),
        ("intermediate_size", 10**9, "describes a model of more weights than its files hold"),
        ("vocab_size", 10**7, "describes a model of more weights than its files hold"),
    ],
)
def test_a_model_larger_than_its_files_is_not_built(
    load: Callable[[str], Any], size: str, value: int, says: str, base: Path, own: Path, tmp_path: Path
) -> None:
    for number, folder in enumerate((base, own)):
        copy = shutil.copytree(folder, tmp_path / str(number))
        edited(**{size: value})(copy)
        begin = time.process_time()
        with pytest.raises(UserError, match=rf"^{copy}: .*{says}"):
            load(str(copy))
        assert time.process_time() - begin < 3


@pytest.mark.parametrize("kind", ["qwen3", "gpt2"])
def test_sizes_of_no_model_are_refused_without_weights_and_under_other_names(kind: str, tmp_path: Path) -> None:
    """Before the tokenizer is read, which looks at the configuration too."""
    model = tiny_model(kind, len(AutoTokenizer.from_pretrained(pretrained(tmp_path, []))))
    model.config.save_pretrained(tmp_path)
    layers = {"qwen3": {"num_hidden_layers": 10**9, "layer_types": None}, "gpt2": {"n_layer": 10**9}}[kind]
    assert load_outline(str(tmp_path))[0].config.num_hidden_layers == 2
    edited(**layers)(tmp_path)
    for load in (load_outline, lambda name: build_tokenizer(HuggingFaceSettings(name_or_path=name))):
        with pytest.raises(UserError, match=rf"^{tmp_path}: {next(iter(layers))} is 1000000000 in its config\.json"):
            load(str(tmp_path))


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
