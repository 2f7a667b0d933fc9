"""`remedy push`: the hub receives the files that the dry run lists, by name, and nothing else that lies in the folder."""

import json
import os
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import pytest
import torch
import yaml
from huggingface_hub import CommitOperationDelete, HfApi, ModelCard
from transformers import AutoModelForCausalLM

from remedy.checksums import write_json
from remedy.models.card import without_paths
from remedy.models.loading import load_checkpoint, merge
from remedy.models.model_manifest import check_model, file_digest, seal_model
from remedy.settings import UserError, load
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
    "tracking": {"report_to": []},
}
SECRET = '{"key": "CANARY"}'


def trained(output: str, **changes: Any) -> Path:
    Path("run.yaml").write_text(yaml.safe_dump({**RUN, "output": output, **changes}))
    return train(load(RunConfig, "run.yaml")).absolute()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current folder of what is made here, which is named relative to it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path := tmp_path_factory.mktemp("here"))
        yield path


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    return trained("model")


@pytest.fixture(scope="module")
def data(folder: Path) -> Path:
    write = {"splits": {"train": 7, "test": 2}, "shard_size": 4}
    (folder / "data.yaml").write_text(yaml.safe_dump({"data": {"task": TASK}, "write": write}))
    assert remedy(["generate", "data.yaml", "--out", "out"]).status == 0
    return folder / "out"


class Hub(HfApi):
    """The hub's client, whose requests are answered here. `repos`: of each kind and name, whether it is private and its files by
    branch; `problem`: what a commit raises."""

    def __init__(self) -> None:
        super().__init__("http://hub")
        self.repos: dict[tuple[str, str], dict[str, Any]] = {}
        self.asked = False
        self.problem: Exception | None = None

    def whoami(self, **_: Any) -> Any:
        self.asked = True

    def create_repo(self, repo_id: str, *, repo_type: str, private: bool | None, exist_ok: bool) -> None:  # type: ignore[override]
        self.repos.setdefault((repo_type, repo_id), {"private": bool(private), "main": {}})

    def repo_info(self, repo_id: str, *, repo_type: str) -> Any:  # type: ignore[override]
        return SimpleNamespace(private=self.repos[repo_type, repo_id]["private"])

    def list_repo_files(self, repo_id: str, *, repo_type: str, revision: str | None, **_: Any) -> list[str]:  # type: ignore[override]
        return list(self.repos[repo_type, repo_id][revision or "main"])

    def create_commit(self, repo_id: str, operations: Any, *, repo_type: str, revision: str | None, **_: Any) -> Any:  # type: ignore[override]
        if self.problem is not None:
            raise self.problem
        files = self.repos[repo_type, repo_id][revision or "main"]
        for operation in operations:
            if isinstance(operation, CommitOperationDelete):
                del files[operation.path_in_repo]
            else:
                files[operation.path_in_repo] = Path(operation.path_or_fileobj).read_bytes()
        return SimpleNamespace(commit_url=f"{self.endpoint}/{repo_id}/commit/1")

    def download(self, repo: str, out: Path, kind: str = "model") -> Path:
        """Write a repository's files into a folder, as a user receives them."""
        for name, content in self.repos[kind, repo]["main"].items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_bytes(content)
        return out


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    found = Hub()
    monkeypatch.setattr("remedy.launch.push.HfApi", lambda: found)
    monkeypatch.setattr("huggingface_hub.hf_api.is_xet_available", lambda: False)
    monkeypatch.setattr(HfApi, "_validate_yaml", lambda *_, **__: None)  # asks the hub
    monkeypatch.setattr(socket, "create_connection", None)  # nobody else is asked
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def pushed(*words: object) -> str:
    ended = remedy(["push", *words])
    assert (ended.status, ended.errors) == (0, "")
    return ended.output


def refused(*words: object) -> str:
    ended = remedy(["push", *words])
    assert ended.status == 2, (ended.output, ended.errors)
    return ended.errors


def listed(output: str) -> set[str]:
    return {line.split()[1] for line in output.splitlines() if line.startswith("  ")}


def left_out(output: str) -> set[str]:
    [line] = [line for line in output.splitlines() if line.startswith("not pushed: ")]
    return {*line.removeprefix("not pushed: ").split(", ")}


@pytest.mark.parametrize("what", ["model", "data"])
def test_the_hub_receives_the_files_that_a_dry_run_lists(
    what: str, hub: Hub, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kind = {"model": "model", "data": "dataset"}[what]
    folder = shutil.copytree(request.getfixturevalue(what), tmp_path / "folder")
    kept = contents(folder)
    shown = pushed(folder, "me/first", "--license", "mit", "--dry-run")
    assert not hub.asked
    assert contents(folder) == kept
    assert f"\n{kind} repository me/first, licence mit\nnothing was pushed" in shown
    for words, name in ((["--private"], "me/first"), ([], "me/second")):
        assert f"pushed: http://hub/{name}/commit/1" in pushed(folder, name, "--license", "mit", *words)
        files = hub.repos[kind, name]["main"]
        assert set(files) == listed(shown)
        assert files == {name: content for name, content in contents(folder).items() if name in files}
        assert hub.repos[kind, name]["private"] is (words == ["--private"])
    changed = {name for name, content in contents(folder).items() if content != kept[name]}
    assert changed == {"README.md"}  # which keeps the licence
    assert ModelCard((folder / "README.md").read_text()).data.license == "mit"
    assert ModelCard((folder / "README.md").read_text()).text == ModelCard(kept["README.md"].decode()).text
    assert "licence mit" in pushed(folder, "me/first", "--dry-run")


def test_a_push_that_was_cut_off_is_repeated_and_one_that_replaces_another_leaves_nothing_of_it(
    hub: Hub, data: Path
) -> None:
    words = [data, "me/set", "--license", "mit"]
    hub.problem = OSError("The connection\nwas cut")
    says = "error: me/set: not pushed to http://hub: The connection was cut (the same command, given again, goes on)\n"
    assert refused(*words) == says
    hub.problem = None
    hub.repos["dataset", "me/set"]["main"] = {"data/train-00000-of-00001.parquet": b"old", "notes.md": b"mine"}
    names = listed(pushed(*words))
    assert set(hub.repos["dataset", "me/set"]["main"]) == {*names, "notes.md"}
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
    assert "No evaluation is recorded here" in text
    assert "It is no way to run a program" in text
    assert str(model.parent) not in text
    check_model(model)


def test_what_else_lies_in_a_folder_is_neither_sealed_nor_pushed_and_is_named(
    hub: Hub, model: Path, data: Path, tmp_path: Path
) -> None:
    strange = {
        "secrets.json",
        "credentials.json",
        "vocab.txt",
        ".env",
        "id_rsa",
        "notes.md",
        "x.yaml",
        "key.safetensors",
    }
    for place in (shutil.copytree(model, tmp_path / "model", symlinks=True), shutil.copytree(data, tmp_path / "data")):
        for name in (*strange, "nested/model.safetensors", "nested/config.json"):
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_text(SECRET)
        (place / "link.json").symlink_to(tmp_path / "elsewhere.json")
    (tmp_path / "data" / "data" / "other.parquet").write_text(SECRET)
    (tmp_path / "data" / "config.json").write_text(SECRET)
    seal_model(tmp_path / "model")
    shown = pushed(tmp_path / "model", "me/model", "--license", "mit")
    logs = {"checkpoint-1", "checkpoint-2", "latest", "metrics.jsonl", "training_args.bin"}
    assert left_out(shown) == strange | logs | {"nested", "link.json"}
    shown = pushed(tmp_path / "data", "me/set", "--license", "mit")
    assert left_out(shown) == strange | {"nested", "link.json", "data/other.parquet", "config.json"}
    for repo in hub.repos.values():
        assert not [name for name, content in repo["main"].items() if b"CANARY" in content]


def test_a_seal_that_names_what_is_no_models_file_is_refused_by_name(model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model" / ".env").write_text(SECRET)
    (tmp_path / "secret.json").write_text(SECRET)
    for name in (".env", "../secret.json", "/etc/hostname", "README.md", "checkpoint-1/config.json"):
        write_json(tmp_path / "model" / "complete.json", {"files": {name: [17, file_digest(tmp_path / "secret.json")]}})
        message = rf"complete\.json: names '{re.escape(name)}', which is no file of a model"
        assert re.search(message, refused(tmp_path / "model", "me/model"))
        with pytest.raises(UserError, match=message):
            load_checkpoint(str(tmp_path / "model"))
    write_json(tmp_path / "model" / "complete.json", {"files": [["config.json"]]})
    assert "lists no files" in refused(tmp_path / "model", "me/model")


def test_links_that_lead_out_of_the_folder_are_refused(model: Path, data: Path, tmp_path: Path) -> None:
    for place, name in ((model, "README.md"), (model, "config.json"), (data, "trace_tokenizer.json"), (data, "data")):
        shutil.rmtree(tmp_path / "folder", ignore_errors=True)
        shutil.copytree(place, tmp_path / "folder")
        (tmp_path / "folder" / name).rename(tmp_path / f"{name}-elsewhere")
        (tmp_path / "folder" / name).symlink_to(tmp_path / f"{name}-elsewhere")
        assert "leads to another place" in refused(tmp_path / "folder", "me/model", "--license", "mit")
    (tmp_path / "linked").symlink_to(model)
    assert "nothing was pushed" in pushed(tmp_path / "linked", "me/model", "--license", "mit", "--dry-run")


def test_places_on_this_machine_are_pushed_to_private_repositories_alone(
    hub: Hub, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = trained(str(tmp_path / "model"))
    said = refused(model, "me/model", "--license", "mit")
    assert re.search(
        rf"config\.yaml, line \d+: names a place on this machine \(output: {tmp_path}/model\): give --private", said
    )
    pushed(model, "me/model", "--private")
    assert ("model", "me/model") in hub.repos
    train(load(RunConfig, "run.yaml", ["output=model"]), resume=True)
    pushed(model, "me/public", "--license", "mit")
    shutil.copytree(data, tmp_path / "data")
    card = (data / "README.md").read_text()
    for words in ("see file:///home/me/x", "  path: /scratch/x.jsonl", '- "C:\\x"', "- ~/x", '{"name_or_path":"/x/y"}'):
        (tmp_path / "data" / "README.md").write_text(f"{card}{words}\n")
        assert f"({words.strip()})" in refused(tmp_path / "data", "me/set", "--license", "mit")
    for words in (
        "https://huggingface.co/me/x",
        "and/or",
        "python: /usr/bin/python3",
        "- a/b",
        "1:2/3/4",
        "[docs](docs/x.md)",
        "runs/home/x",
    ):
        (tmp_path / "data" / "README.md").write_text(f"{card}{words}\n")
        pushed(tmp_path / "data", "me/set", "--license", "mit", "--dry-run")


def test_a_fine_tuned_model_opens_in_transformers_and_adapters_of_a_folder_here_are_merged_first(
    hub: Hub, folder: Path, tmp_path: Path
) -> None:
    base = str(write_tiny_cwm(folder / "base").relative_to(folder))
    pretrained = {"kind": "pretrained", "name_or_path": base}
    settings = {"tokenizer": {"kind": "hf", "name_or_path": base}}
    whole = trained("whole", model=pretrained, **settings)
    lora = trained("lora", model={**pretrained, "lora": {"r": 2}}, **settings)
    assert "base, trained further" in (whole / "README.md").read_text()
    assert re.search(r"holds adapters of a model that no hub has.*`remedy merge", refused(lora, "me/lora"))
    merge(str(lora), folder / "merged")
    for model in (whole, folder / "merged"):
        (model / "vocab.txt").write_text(SECRET)
        seal_model(model)
        shown = pushed(model, f"me/{model.name}", "--license", "mit")
        assert {"model.safetensors", "generation_config.json", "tokenizer.json", "config.yaml"} <= listed(shown)
        assert "vocab.txt" in left_out(shown)
        downloaded = hub.download(f"me/{model.name}", tmp_path / model.name)
        assert ModelCard((downloaded / "README.md").read_text()).data.library_name == "transformers"
        mine, theirs = load_checkpoint(str(model))[0], AutoModelForCausalLM.from_pretrained(downloaded)
        assert all(torch.equal(mine.state_dict()[name], held) for name, held in theirs.state_dict().items())
        load_checkpoint(str(downloaded))

    config = json.loads((lora / "adapter_config.json").read_text())
    (lora / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": "facebook/cwm"}))
    card = ModelCard((lora / "README.md").read_text())
    card.data.base_model = "facebook/cwm"
    (lora / "README.md").write_text(str(card))
    seal_model(lora)
    assert "adapter_model.safetensors" in listed(pushed(lora, "me/lora", "--license", "mit"))


def test_a_data_set_is_read_from_the_hub_and_is_whole(hub: Hub, data: Path, tmp_path: Path) -> None:
    pushed(data, "me/set", "--license", "mit")
    downloaded = hub.download("me/set", tmp_path / "set", "dataset")
    loaded = datasets.load_dataset(str(downloaded), cache_dir=str(tmp_path / "cache"))
    assert {split: len(rows) for split, rows in loaded.items()} == {"train": 7, "test": 2}
    shutil.copytree(data, tmp_path / "damaged")
    path = tmp_path / "damaged" / "data" / "test-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    assert "is damaged" in refused(tmp_path / "damaged", "me/set", "--dry-run")


def test_nothing_that_a_strangers_settings_name_is_imported(hub: Hub, model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "helper.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w')")
    settings = yaml.safe_load((model / "config.yaml").read_text())
    settings["plugins"] = [str(tmp_path / "helper.py")]
    settings["data"]["task"]["tracer"] = {"python": str(tmp_path / "helper.py")}
    (tmp_path / "model" / "config.yaml").write_text(yaml.safe_dump(settings))
    seal_model(tmp_path / "model")
    pushed(tmp_path / "model", "me/model", "--private")
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "model.safetensors").write_bytes(b""), r"model\.safetensors is damaged"),
        (lambda folder: (folder / "complete.json").unlink(), r"is no finished model's folder"),
        (lambda folder: (folder / "README.md").unlink(), r"README\.md: the card cannot be read"),
        (lambda folder: [(folder / "README.md").unlink(), os.mkfifo(folder / "README.md")], "the card cannot be read"),
        (lambda folder: (folder / "README.md").write_text("---\n: [\n---\n"), "the card cannot be read"),
        (lambda folder: (folder / "README.md").write_text("---\nself: 1\n---\n"), "the card cannot be read"),
        (
            lambda folder: (folder / "README.md").write_text("---\na: &a [1]\nlicense: [*a, *a]\n---\n"),
            "have no aliases",
        ),
        (lambda folder: (folder / "README.md").open("w").truncate(12 << 30), "no file of at most 10,000,000 bytes"),
    ],
)
def test_a_folder_that_is_not_whole_or_not_ours_is_refused(
    spoil: Any, message: str, model: Path, tmp_path: Path
) -> None:
    shutil.copytree(model, tmp_path / "model")
    spoil(tmp_path / "model")
    assert re.search(message, refused(tmp_path / "model", "me/model", "--dry-run"))


@pytest.mark.parametrize("name", ["model", "a/b/c", "me/my model", "me/--x", "https://huggingface.co/me/x", "me/é"])
def test_what_is_no_repositorys_name_is_refused_before_anything_is_read(name: str, tmp_path: Path) -> None:
    assert "is no repository's name: write USER/NAME" in refused(tmp_path, name)


def test_what_names_no_licence_is_not_public(hub: Hub, model: Path) -> None:
    assert "no licence is named" in refused(model, "me/model")
    assert "private model repository me/model, licence none" in pushed(model, "me/model", "--private", "--dry-run")


def test_places_are_taken_out_of_settings() -> None:
    given = {"a": ["/home/me/x.jsonl", "runs/x", 3], "b": {"c": "C:\\me\\y", "d": "~/z", "e": "/", "f": "a/b"}}
    assert without_paths(given) == {"a": ["x.jsonl", "runs/x", 3], "b": {"c": "y", "d": "z", "e": "/", "f": "a/b"}}
