"""`remedy push`: what the dry run shows is handed to the hub's client, with a card that says what was measured of that model."""

import json
import re
import shutil
import socket
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from transformers import AutoModelForCausalLM

from remedy.checksums import write_json
from remedy.eval.config import EvalConfig
from remedy.eval.evaluate import evaluate_checkpoint
from remedy.models.card import NOT_EVALUATED, without_paths
from remedy.models.loading import load_checkpoint, merge
from remedy.models.model_manifest import check_model, file_digest, recorded_weights, seal_model
from remedy.settings import load
from remedy.train.config import RunConfig
from remedy.train.run import train
from tests.launch.in_process import remedy
from tests.tiny_cwm import write_tiny_cwm

TASK = {"kind": "permutation", "n": 3, "length": 2}
RUN = {
    "name": "<script>alert(1)</script>\n---\nlicense: mit | `x`",
    "data": {"task": TASK, "reveal": {"locals": "diff"}},
    "tokenizer": {"kind": "chars"},
    "model": {"mixers": ["gru"], "num_hidden_layers": 1, "hidden_size": 16},
    "train": {"max_steps": 2, "batch_size": 2, "save_steps": 1, "threads": 1},
    "tracking": {"wandb": False},
}
EVALUATION = {
    "diagnostics": [{"kind": "permutation", "lengths": [2], "forcing": ["free", "action_forced"], "examples": 4}],
    "max_new_tokens": 40,
}


def trained(folder: Path, **changes: Any) -> Path:
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump({**RUN, "output": str(folder / "model"), **changes}))
    return train(load(RunConfig, path))


def evaluated(model: Path, out: Path) -> Path:
    evaluate_checkpoint(model, EvalConfig.model_validate(EVALUATION), out, progress=lambda done: None)
    return out


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write = {"splits": {"train": 7, "test": 2}, "shard_size": 4}
    (folder / "data.yaml").write_text(yaml.safe_dump({"data": {"task": TASK}, "write": write}))
    assert remedy(["generate", folder / "data.yaml", "--out", folder / "out"]).status == 0
    return folder / "out"


class Hub:
    """Stands for the client of a hub. `repos`: of each kind and name, whether it is private and its files by branch; `problem`: what an
    upload raises."""

    endpoint = "http://hub"

    def __init__(self) -> None:
        self.repos: dict[tuple[str, str], dict[str, Any]] = {}
        self.asked: list[str] = []
        self.problem: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self, f"_{name}")

    def _whoami(self) -> None:
        pass

    def _repo_exists(self, repo: str, repo_type: str) -> bool:
        return (repo_type, repo) in self.repos

    def _create_repo(self, repo: str, repo_type: str, private: bool | None, exist_ok: bool) -> None:
        self.repos.setdefault((repo_type, repo), {"private": bool(private), "main": {}})

    def _repo_info(self, repo: str, repo_type: str) -> Any:
        return SimpleNamespace(private=self.repos[repo_type, repo]["private"])

    def _create_branch(self, repo: str, branch: str, repo_type: str, exist_ok: bool) -> None:
        self.repos[repo_type, repo].setdefault(branch, {})

    def _upload_folder(
        self,
        repo_id: str,
        folder_path: Path,
        repo_type: str,
        revision: str | None,
        delete_patterns: list[str],
        **_: str,
    ) -> Any:
        if self.problem is not None:
            raise self.problem
        files, new = self.repos[repo_type, repo_id][revision or "main"], contents(folder_path)
        for name in [one for one in files if any(fnmatch(one, pattern) for pattern in delete_patterns)]:
            del files[name]
        files.update(new)
        return SimpleNamespace(commit_url=f"{self.endpoint}/{repo_id}/commit/1")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    found = Hub()
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: found)
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(*words: object) -> str:
    ended = remedy(["push", *words])
    assert ended.status == 2, (ended.output, ended.errors)
    return ended.errors


@pytest.mark.parametrize("what", ["model", "data"])
def test_the_hub_receives_the_dry_runs_files_to_the_byte(
    what: str, hub: Hub, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder, kind = request.getfixturevalue(what), {"model": "model", "data": "dataset"}[what]
    kept = contents(folder)
    shown = remedy(["push", folder, "me/first", "--license", "mit", "--dry-run", tmp_path / "dry"])
    assert (shown.status, hub.asked) == (0, [])
    dry = contents(tmp_path / "dry")
    assert {line.split()[1] for line in shown.output.splitlines() if line.startswith("  ")} == set(dry)
    for words, name, branch in ((["--private"], "me/first", "main"), (["--revision", "v1"], "me/second", "v1")):
        pushed = remedy(["push", folder, name, "--license", "mit", *words])
        assert (pushed.status, pushed.errors) == (0, "")
        assert f"pushed: http://hub/{name}/commit/1" in pushed.output
        assert hub.repos[kind, name][branch] == dry
        assert hub.repos[kind, name]["private"] is (words == ["--private"])
    assert contents(folder) == kept


def test_a_push_that_was_cut_off_is_repeated_and_one_that_replaces_another_leaves_nothing_of_it(
    hub: Hub, model: Path, data: Path, tmp_path: Path
) -> None:
    words = [data, "me/set", "--license", "mit"]
    assert remedy(["push", *words, "--dry-run", tmp_path / "dry"]).status == 0
    hub.problem = OSError("The connection\nwas cut")
    says = "error: me/set: not pushed to http://hub: The connection was cut (the same command, given again, goes on)\n"
    assert refused(*words) == says
    hub.problem = None
    hub.repos["dataset", "me/set"]["main"] = {"data/train-00000-of-00001.parquet": b"old", "notes.md": b"mine"}
    assert remedy(["push", *words]).status == 0
    assert hub.repos["dataset", "me/set"]["main"] == {**contents(tmp_path / "dry"), "notes.md": b"mine"}
    assert "me/set: is a dataset repository already" in refused(model, "me/set", "--license", "mit")
    assert "me/set: is public already" in refused(*words, "--private")


def test_a_finished_runs_card_states_training_and_limits_and_nothing_in_it_acts(model: Path) -> None:
    text = (model / "README.md").read_text()
    card = ModelCard(text)
    assert card.data.to_dict()["library_name"] == "cwm-remedy"
    assert card.data.get("license") is None
    assert "<script" not in text
    assert [line for line in text.splitlines() if line == "---"] == ["---", "---"]
    account = json.loads((model / "training.json").read_text())
    for row in (f"| Tokens | {account['tokens']:,} |", "| Steps | 2 |", "| Data seed | 0 |", "kind: permutation"):
        assert row in text
    assert NOT_EVALUATED in text
    assert "It is no way to run a program" in text
    assert str(model.parent) not in text
    check_model(model)


def test_results_of_this_very_model_come_into_its_card(model: Path, tmp_path: Path) -> None:
    results = evaluated(model, tmp_path / "results")
    words = ["push", model, "me/model", "--results", results, "--license", "mit", "--dry-run"]
    assert remedy([*words, tmp_path / "dry"]).status == 0
    card = ModelCard((tmp_path / "dry" / "README.md").read_text())
    measured = json.loads((results / "summary.json").read_text())["conditions"]
    assert [one.metric_value for one in card.data.eval_results] == [round(one["right"]["mean"], 4) for one in measured]
    assert [one.dataset_config for one in card.data.eval_results] == [one["condition"] for one in measured]
    low, high = (measured[0]["right"][end] for end in ("low", "high"))
    assert f"95 % interval {low:.4f} to {high:.4f}, {measured[0]['programs']} programs" in str(card)
    assert "\n- Diagnosis. forcing action_forced in place of free: " in card.text
    assert "Not evaluated: composed functions; " in card.text
    assert NOT_EVALUATED not in card.text
    assert NOT_EVALUATED in (model / "README.md").read_text()

    (tmp_path / "other").mkdir()
    other = trained(tmp_path / "other", train={**RUN["train"], "seed": 1})  # type: ignore[dict-item]
    said = refused(other, "me/model", "--results", results, "--dry-run", tmp_path / "no")
    assert re.search(rf"is of another model .*{recorded_weights(model)}, not {recorded_weights(other)}", said)
    (results / "summary.json").unlink()
    assert "is not finished" in refused(model, "me/model", "--results", results, "--dry-run", tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_what_is_pushed_is_what_the_seal_names_and_can_be_loaded_and_names_no_place_here(
    model: Path, tmp_path: Path
) -> None:
    for name in ("optimizer.pt", ".netrc", "wandb/run.json", "notes.json"):
        path = tmp_path / "model" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret")
    shutil.copytree(model, tmp_path / "model", dirs_exist_ok=True)
    shown = remedy(["push", tmp_path / "model", "me/model", "--dry-run", tmp_path / "dry"])
    assert "no licence is named" in shown.output
    assert "of absolute paths in config.yaml the last part alone is pushed" in shown.output
    found = contents(tmp_path / "dry")
    assert set(found) == {*json.loads(found["complete.json"])["files"], "complete.json", "README.md"}
    assert not [name for name, held in found.items() if b"secret" in held or str(tmp_path).encode() in held]
    assert not [name for name, held in found.items() if str(model.parent).encode() in held]
    before, after = (load_checkpoint(str(folder))[0].state_dict() for folder in (model, tmp_path / "dry"))
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert recorded_weights(tmp_path / "dry") == recorded_weights(model)


def test_a_fine_tuned_model_opens_in_transformers_and_adapters_of_a_folder_here_are_merged_first(
    tmp_path: Path,
) -> None:
    base = str(write_tiny_cwm(tmp_path / "base"))
    pretrained = {"kind": "pretrained", "name_or_path": base}
    settings = {"tokenizer": {"kind": "hf", "name_or_path": base}}
    (tmp_path / "whole").mkdir()
    (tmp_path / "lora").mkdir()
    whole = trained(tmp_path / "whole", model=pretrained, **settings)
    lora = trained(tmp_path / "lora", model={**pretrained, "lora": {"r": 2}}, **settings)
    assert "base, trained further" in (whole / "README.md").read_text()
    said = refused(lora, "me/lora", "--dry-run", tmp_path / "no")
    assert re.search(r"holds adapters of .*/base, a folder of this machine.*`remedy merge", said)
    merge(str(lora), tmp_path / "merged")
    for folder in (whole, tmp_path / "merged"):
        dry = tmp_path / f"dry-{folder.name}"
        shown = remedy(["push", folder, "me/model", "--license", "mit", "--dry-run", dry])
        assert "of absolute paths in config.yaml and trace_tokenizer.json" in shown.output
        assert ModelCard((dry / "README.md").read_text()).data.library_name == "transformers"
        mine, theirs = load_checkpoint(str(folder))[0], AutoModelForCausalLM.from_pretrained(dry)
        assert all(torch.equal(mine.state_dict()[name], held) for name, held in theirs.state_dict().items())
        load_checkpoint(str(dry))

    config = json.loads((lora / "adapter_config.json").read_text())
    (lora / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": "facebook/cwm"}))
    text = (lora / "config.yaml").read_text()
    (lora / "config.yaml").write_text(text.replace(base, "facebook/cwm"))
    (lora / "README.md").unlink()
    seal_model(lora)
    assert remedy(["push", lora, "facebook/cwm", "--dry-run", tmp_path / "dry-lora"]).status == 0
    found = ModelCard((tmp_path / "dry-lora" / "README.md").read_text()).data.to_dict()
    assert (found["base_model"], found["base_model_relation"], found["library_name"]) == (
        "facebook/cwm",
        "adapter",
        "peft",
    )


def test_a_data_sets_folder_opens_with_datasets_and_is_whole(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "create_connection", None)  # nobody is asked
    assert remedy(["push", data, "me/set", "--license", "mit", "--dry-run", tmp_path / "dry"]).status == 0
    loaded = datasets.load_dataset(str(tmp_path / "dry"), cache_dir=str(tmp_path / "cache"))
    assert {split: len(rows) for split, rows in loaded.items()} == {"train": 7, "test": 2}
    shutil.copytree(data, tmp_path / "damaged")
    path = tmp_path / "damaged" / "data" / "test-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    assert "is damaged" in refused(tmp_path / "damaged", "me/set", "--dry-run", tmp_path / "no")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "model.safetensors").write_bytes(b""), r"model\.safetensors is damaged"),
        (lambda folder: (folder / "complete.json").unlink(), r"has no complete\.json"),
        (lambda folder: [path.unlink() for path in folder.iterdir() if path.is_file()], "is neither a finished run's"),
        (lambda folder: (folder / "README.md").write_text("---\n: [\n---\n"), "metadata cannot be read"),
        (lambda folder: (folder / "README.md").write_text(f"in {folder.parent}/x"), "names a place on this machine"),
        (lambda folder: (folder / "README.md").write_text("see file:///home/me/x"), r"names a place .*\(/home/me/\)"),
    ],
)
def test_a_folder_that_is_not_whole_or_not_ours_is_refused(
    spoil: Any, message: str, model: Path, tmp_path: Path
) -> None:
    shutil.copytree(model, tmp_path / "model")
    spoil(tmp_path / "model")
    assert re.search(message, refused(tmp_path / "model", "me/model", "--dry-run", tmp_path / "dry"))
    assert not (tmp_path / "dry").exists()


def test_links_and_seals_that_lead_elsewhere_are_refused(model: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text("{}")
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model" / "README.md").unlink()
    (tmp_path / "model" / "README.md").symlink_to(tmp_path / "secret.json")
    words = tmp_path / "model", "me/model", "--dry-run", tmp_path / "dry"
    assert "README.md: leads to another place" in refused(*words)
    (tmp_path / "model" / "README.md").unlink()
    (tmp_path / "model" / "x.json").symlink_to(tmp_path / "secret.json")
    seal_model(tmp_path / "model")
    assert "x.json: leads to another place" in refused(*words)
    (tmp_path / "model" / "x.json").unlink()
    (tmp_path / "model" / "linked").symlink_to(tmp_path)
    for name in ("../secret.json", "linked/secret.json", str(tmp_path / "secret.json")):
        files = {name: [2, file_digest(tmp_path / "secret.json")]}
        write_json(tmp_path / "model" / "complete.json", {"files": files})
        assert "secret.json: leads to another place" in refused(*words)


@pytest.mark.parametrize("name", ["model", "a/b/c", "me/my model", "me/--x", "https://huggingface.co/me/x", "me/é"])
def test_what_is_no_repositorys_name_is_refused_before_anything_is_read(name: str, tmp_path: Path) -> None:
    assert "is no repository's name: write USER/NAME" in refused(tmp_path, name)


def test_other_words_that_do_not_fit_are_refused(model: Path, tmp_path: Path) -> None:
    assert "--license 'MIT License'" in refused(model, "me/model", "--license", "MIT License")
    assert "no licence is named" in refused(model, "me/model")
    assert "is not empty" in refused(model, "me/model", "--dry-run", model)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model").symlink_to(model)
    assert f"give {tmp_path / 'run' / 'model'}" in refused(tmp_path / "run", "me/model")


def test_places_are_taken_out_of_settings() -> None:
    given = {"a": ["/home/me/x.jsonl", "runs/x", 3], "b": {"c": "C:\\me\\y", "d": "~/z", "e": "/", "f": "a/b"}}
    assert without_paths(given) == {"a": ["x.jsonl", "runs/x", 3], "b": {"c": "y", "d": "z", "e": "/", "f": "a/b"}}
