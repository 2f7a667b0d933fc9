"""What an evaluation takes from a checkpoint: its data with the evaluation's changes, and what it was trained on."""

import copy
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import yaml

from remedy.eval.checkpoint import for_checkpoint, weights_digest
from remedy.eval.config import EvalConfig
from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.protocol import CausalLM
from remedy.settings import ConfigError, build


def changing(changes: dict[str, Any]) -> EvalConfig:
    return build(EvalConfig, {"diagnostics": [{"kind": "programs"}], "set": changes}, "e.yaml")


def test_a_checkpoint_without_data_needs_all_of_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="stores no data configuration"):
        for_checkpoint(str(tmp_path), changing({"format": "repl"}))
    given = for_checkpoint(str(tmp_path), changing({"task": {"kind": "permutation", "n": 4}}))
    assert (given.data.task.kind, given.trained_on) == ("permutation", None)


def test_changes_are_made_to_the_stored_data(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("data: {task: {kind: permutation, n: 4}, format: repl}")
    changed = for_checkpoint(str(tmp_path), changing({"task.n": 5}))
    assert (changed.data.task.model_dump()["n"], changed.data.format) == (5, "repl")
    assert changed.trained_on is not None
    assert changed.trained_on.model_dump()["n"] == 4
    (tmp_path / "config.yaml").write_text("data: {task: {kind: programs, benchmark: cruxeval}}")
    own = for_checkpoint(str(tmp_path), changing({"task": {"kind": "programs", "path": "p"}}))
    assert own.data.task.model_dump()["benchmark"] is None  # a section is replaced whole
    assert own.trained_on is not None
    assert own.trained_on.model_dump()["benchmark"] == "cruxeval"


def test_interpreter_and_isolation_are_the_users_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tracer = {"isolation": "none", "python": "/x/python", "max_frames": 9}
    stored = {"data": {"task": {"kind": "programs", "path": "p", "tracer": tracer}}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(stored))

    def tracer_of(**given: Any) -> list[Any]:
        found = for_checkpoint(str(tmp_path), changing(given.pop("set", {})), **given)
        assert found.trained_on is not None
        return [[task.model_dump()["tracer"][key] for key in tracer] for task in (found.data.task, found.trained_on)]

    assert tracer_of() == [["auto", None, 9]] * 2
    assert [f"task.tracer.{key} {value!r} is left out" in caplog.text for key, value in tracer.items()] == [1, 1, 0]
    assert tracer_of(set={"task.tracer.isolation": "none"}) == [["none", None, 9], ["auto", None, 9]]
    assert tracer_of(own=stored) == [[*tracer.values()]] * 2


def test_a_mistake_in_the_stored_data_is_one_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("data: {task: {kind: permutation, answr: print}}")
    with pytest.raises(ConfigError, match=r"^\S*config\.yaml: unknown key 'task\.answr'; did you mean 'answer'"):
        for_checkpoint(str(tmp_path), changing({}))


def test_two_checkpoints_that_differ_anywhere_have_two_digests() -> None:
    torch.manual_seed(0)
    settings = DecoderSettings(mixers=("gru", "attention"), hidden_size=32, num_attention_heads=2)
    model = DecoderForCausalLM(DecoderConfig.from_settings(settings, 50))
    before = weights_digest(model)
    for tensor in model.state_dict().values():
        flat = tensor.view(-1).view(torch.int32)
        for place in {0, 1, flat.numel() // 3, flat.numel() - 1} & set(range(flat.numel())):
            flat[place] ^= 1  # the least bit of one value
            assert weights_digest(model) != before
            flat[place] ^= 1
    assert weights_digest(model) == before


def test_the_digest_is_that_of_the_values_in_any_precision_that_holds_them() -> None:
    torch.manual_seed(0)
    half = torch.nn.Linear(9, 7).bfloat16()
    assert weights_digest(cast(CausalLM, half)) == weights_digest(cast(CausalLM, copy.deepcopy(half).float()))
    assert weights_digest(cast(CausalLM, half)) != weights_digest(cast(CausalLM, torch.nn.Linear(9, 7)))
