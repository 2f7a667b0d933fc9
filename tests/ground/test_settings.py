"""Settings: one way to change them, and errors that name file, key and nearest valid name."""

import math
from pathlib import Path

import pytest

from remedy.settings import ConfigError, apply_changes, build, dump, load, parse_overrides, read_stored, read_yaml
from remedy.train.config import RunConfig

TASK = {"task": {"kind": "permutation"}}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"modell": {}}, "x.yaml: unknown key 'modell'; did you mean 'model'?"),
        ({"train": {"curriculum": [{"steps": 1, "sett": {}}]}}, "'train.curriculum.0.sett'; did you mean 'set'?"),
        ({"data": {}}, "missing key 'data.task'"),
        ({"train": {"max_steps": "many"}}, "key 'train.max_steps': Input should be a valid integer"),
        ({"train": {"loss_roles": "state"}}, "key 'train.loss_roles': must be a list, such as [a, b], got 'state'"),
        ({"train": 5}, "key 'train': must be a section, such as {key: value}, got 5"),
        ({"train": {"batch_size": 10, "micro_batch_size": 3}}, "batch_size (10) must be a multiple of"),
        ({"optimizer": "sgd"}, "did you mean 'train.optim'? (AdamW by default; it takes Transformers' names)"),
        ({"lr": 3}, "unknown key 'lr'; did you mean 'train.learning_rate'?"),  # as other tools call it
        ({"data": {**TASK, "length": 3}}, "did you mean 'task.length'?"),
    ],
)
def test_errors_name_key_and_nearest_valid_one(changes: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError) as error:
        build(RunConfig, {"data": TASK, **changes}, "x.yaml")
    assert says in str(error.value)
    assert "Value error" not in str(error.value)


def test_stored_settings_do_not_grow_when_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    for text in ("a: &a [1, 1]\nplugins: [*a, *a]", "a: &a {k: 1}\nb: {<<: [*a, *a]}"):
        path.write_text(text)
        read_yaml(path)  # a user's own
        with pytest.raises(ConfigError, match="stored settings have no aliases"):
            read_stored(path)
    path.write_text("a: 1\n" * 30_000)
    with pytest.raises(OSError, match="no plain file of at most 131,072 bytes"):
        read_stored(path)
    with pytest.raises(ConfigError, match="unknown key 'a19'") as error:
        build(RunConfig, {f"a{number}": 1 for number in range(30_000)})
    assert "a20" not in str(error.value)


def test_null_takes_a_key_back_and_defaults_of_what_does_nothing_read_back(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("data: {task: {kind: permutation}}\nmodel: {positions: none, rope_theta: 5}")
    with pytest.raises(ConfigError, match=r"model: rope_theta 5 does nothing with .*: remove it"):
        load(RunConfig, path)
    assert load(RunConfig, path, ["model.rope_theta=null"]).model.rope_theta == 10_000  # type: ignore[union-attr]
    path.write_text("data: {task: {kind: permutation}}\nmodel: {mixers: [gru]}\ntrain: {seed: 3}")
    config = load(RunConfig, path, ["train.seed=null"])
    assert config.train.seed == 0
    path.write_text(dump(config))
    assert load(RunConfig, path) == config
    with pytest.raises(ConfigError, match=r"unknown key 'train\.max_step'; did you mean 'max_steps'"):
        load(RunConfig, path, ["train.max_step=null"])


def test_what_an_override_makes_idle_is_left_out_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("data: {task: {kind: permutation}}\nmodel: {mixers: [deltanet], num_attention_heads: 8}")
    with caplog.at_level("INFO", "remedy"):
        model = load(RunConfig, path, ["model.mixers=[gru]"]).model
    assert model.num_attention_heads is None  # type: ignore[union-attr]
    (said,) = caplog.messages
    assert said.startswith(f"{path}: model: num_attention_heads 8 does nothing with mixers gru: it is for attention")
    assert said.endswith(": left out")
    with pytest.raises(ConfigError, match="num_attention_heads 8 does nothing"):  # given itself
        load(RunConfig, path, ["model.mixers=[gru]", "model.num_attention_heads=8"])
    path.write_text("data: {task: {kind: permutation}}\nmodel: {mixers: [gru], num_attention_heads: 8}")
    with pytest.raises(ConfigError, match="num_attention_heads 8 does nothing"):  # the file's own
        load(RunConfig, path, ["train.seed=1"])


def test_overrides_reach_sections_lists_and_missing_sections() -> None:
    data = {"a": {"b": 1}, "list": [{"c": 1}, {"c": 2}]}
    changed = apply_changes(data, parse_overrides(["a.b=[1, 2]", "list.1.c=null", "new.section.key=text", "a.d=1e-3"]))
    assert changed == {
        "a": {"b": [1, 2], "d": "1e-3"},
        "list": [{"c": 1}, {"c": None}],
        "new": {"section": {"key": "text"}},
    }
    assert data == {"a": {"b": 1}, "list": [{"c": 1}, {"c": 2}]}
    for wrong in ("a", "=1", "list.7.c=1", "a.b.c=1", "a=" + "[" * 5000):
        with pytest.raises(ConfigError, match="override"):
            apply_changes(data, parse_overrides([wrong]), "override")


def test_below_a_mapping_of_changes_keys_stay_whole() -> None:
    data = {"set": {"reveal.locals": "diff", "task": {"kind": "permutation"}}, "g": {"runs": {"a": {}}}}
    words = ["set.reveal.spacing=4", "set.task.length=3", "set.reveal.locals=full", "set.seed=1"]
    words += ["g.runs.a.train.seed=1", "g.runs.a.seed=2", "g.grid.train.seed=[1, 2]", "stages.set={}"]
    assert apply_changes(data, parse_overrides(words)) == {
        "set": {
            "reveal.locals": "full",
            "task": {"kind": "permutation"},
            "reveal.spacing": 4,
            "task.length": 3,
            "seed": 1,
        },
        "g": {"runs": {"a": {"train.seed": 1, "seed": 2}}, "grid": {"train.seed": [1, 2]}},
        "stages": {"set": {}},
    }


@pytest.mark.parametrize("form", range(3))
def test_the_resolved_configuration_reads_back(tmp_path: Path, form: int) -> None:
    never, stage = {"reveal.spacing": math.inf}, {"steps": 1}
    given: list[dict[str, object]] = [
        {"data": {**TASK, "reveal": {"spacing": math.inf}}},
        {"data": TASK, "mixture": {"none": {"set": never}, "all": {}}},
        {"data": TASK, "train": {"curriculum": [{**stage, "set": never}, stage]}},
    ]
    config = build(RunConfig, given[form], "x")
    path = tmp_path / "resolved.yaml"
    path.write_text(dump(config))
    assert load(RunConfig, path) == config
