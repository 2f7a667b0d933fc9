"""A finished model's folder is sealed: what is loaded from it is what was written, to the last bit, or is named."""

from pathlib import Path

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.tasks.permutation import PermutationTask
from remedy.models.loading import load_checkpoint
from remedy.models.model_manifest import model_files, recorded_weights, seal_model
from remedy.settings import UserError
from tests.tiny_models import small_decoder, tokenizer_for


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer = tokenizer_for(DataConfig(task=PermutationTask(n=3), format="symbolic"))
    small_decoder(tokenizer).save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    (tmp_path / "config.yaml").write_text("data: {task: {kind: permutation}}")
    seal_model(tmp_path)
    return tmp_path


def test_a_flipped_bit_anywhere_is_named_before_the_model_is_loaded(folder: Path) -> None:
    load_checkpoint(str(folder))
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        for place in {0, len(content) // 3, len(content) // 2, len(content) - 1}:
            damaged = bytearray(content)
            damaged[place] ^= 2
            path.write_bytes(damaged)
            with pytest.raises(UserError, match=rf"{path.name}:? is damaged.*train again with --resume"):
                load_checkpoint(str(folder))
        path.write_bytes(content)
    load_checkpoint(str(folder))


def test_weights_beside_a_configuration_are_loaded_with_a_seal_of_both_alone(folder: Path) -> None:
    assert len(recorded_weights(folder)) == 16
    (folder / "complete.json").unlink()
    with pytest.raises(UserError, match=r"has no complete\.json.*train it to the end with --resume"):
        load_checkpoint(str(folder))
    assert recorded_weights(folder) == ""
    (folder / "config.yaml").unlink()  # a model from elsewhere
    load_checkpoint(str(folder))


def test_a_models_files_are_known_by_name_and_slow_tokenizers_vocabularies_where_there_is_no_fast_one() -> None:
    fast = {
        "model-00001-of-00002.safetensors",
        "model.safetensors.index.json",
        "adapter_model.safetensors",
        "config.json",
    }
    fast |= {"config.yaml", "training.json", "tokenizer_config.json", "chat_template.jinja", "trace_tokenizer.json"}
    slow = {"vocab.txt", "merges.txt", "tokenizer.model", "added_tokens.json"}
    strange = {
        "credentials.json",
        "notes.txt",
        "mymodel.safetensors",
        "model.safetensors.json",
        ".env",
        "complete.json",
    }
    assert model_files(fast | slow | strange) == fast | slow
    assert model_files({*fast, "tokenizer.json"} | slow | strange) == {*fast, "tokenizer.json"}
    assert model_files(fast - {"tokenizer_config.json"} | slow | strange) == fast - {"tokenizer_config.json"}
