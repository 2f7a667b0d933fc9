"""Folders of strangers under every command: no plug-in that their settings name is imported, no interpreter of theirs is started, no
program of theirs runs outside the sandbox. Each door has a canary, which the user's own words let through."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from remedy import plugins
from remedy.checksums import digest_of, read_json, write_json, write_table
from remedy.data_gen.shards import MANIFEST
from remedy.launch.experiment import ExperimentConfig
from remedy.launch.jobs import EVALUATE, TRAIN, expand, prepare
from remedy.models.loading import load_checkpoint
from remedy.models.model_manifest import CONFIG_FILE, SEAL, seal_model
from remedy.settings import build, load
from remedy.train.checkpoints import seal
from remedy.train.config import RunConfig
from remedy.train.run import train
from tests.launch.in_process import Ended, remedy

DATA = {"task": {"kind": "permutation", "n": 3, "length": 2}, "reveal": {"locals": "diff"}}
RUN: dict[str, Any] = {
    "data": DATA,
    "tokenizer": {"kind": "bpe", "vocab_size": 300},
    "model": {"mixers": ["gru"], "num_hidden_layers": 1, "hidden_size": 16},
    "train": {"max_steps": 2, "batch_size": 2, "save_steps": 1, "threads": 1},
    "tracking": {"report_to": []},
}
PROGRAM = "def main():  # << START_OF_TRACE\n    a = 1\n    return a\n"
SECRET = "words_of_the_user"
HELPERS = ("helper.py", "module_of_a_stranger")


def trained(folder: Path, name: str, **changes: Any) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**RUN, "output": str(folder / name), **changes}))
    return train(load(RunConfig, path))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("run"), "run")


class Here:
    """The user's folder, with a stranger's in it; `opened` are the doors that code has come through."""

    def __init__(self, folder: Path, run: Path) -> None:
        self.folder, self.run = folder, run
        (folder / "secret").write_text(SECRET)
        (folder / "program.py").write_text(PROGRAM)
        (folder / f"{HELPERS[1]}.py").write_text(f"open({str(folder / 'came-module')!r}, 'w')\n")
        diagnostic = {"kind": "programs", "forcing": ["free"], "examples": 1}
        self.evaluation = {"diagnostics": [diagnostic], "max_new_tokens": 8, "split": "all"}
        self.write("e.yaml", self.evaluation)
        self.write("measure.yaml", {"sources": [{"path": "program.py"}], "tokenizers": {}, "checkpoints": ["x"]})
        (folder / "logs").mkdir()
        self.write("logs/config.yaml", {"plugins": [HELPERS[1]]})

    def write(self, name: str, content: dict[str, Any]) -> Path:
        (self.folder / name).write_text(yaml.safe_dump(content))
        return self.folder / name

    def forget(self) -> None:
        """Let a plug-in be imported anew."""
        for name in (Path(HELPERS[0]).stem, HELPERS[1]):
            for held in (sys.modules, plugins._loaded):
                held.pop(name, None)
        os.environ["REMEDY_PLUGINS"] = "[]"

    @property
    def opened(self) -> set[str]:
        return {path.name.removeprefix("came-") for path in self.folder.glob("came-*")}

    def arm(self, folder: Path) -> dict[str, Any]:
        """Put what strangers run into a folder; returns settings that name it."""
        (folder / HELPERS[0]).write_text(f"open({str(self.folder / 'came-path')!r}, 'w')\n")
        python = folder / "python3.11"
        python.write_text(f'#!/bin/sh\ntouch {self.folder}/came-python\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        return {"plugins": [f"{folder.name}/{HELPERS[0]}", HELPERS[1]]}

    def checkpoint(self, tracer: dict[str, str]) -> Path:
        """A sealed copy of a run, whose settings open every door that there is beside this tracer's."""
        folder = self.folder / "x"
        shutil.copytree(self.run, folder, ignore=shutil.ignore_patterns("checkpoint-*", "latest"))
        body = f"__import__('os').system('touch {self.folder}/came-trusted')"
        if tracer.get("isolation") == "none":
            body = f"x = open({str(self.folder / 'secret')!r}).read()"
        programs = f"x/of-{self.folder.name}.jsonl"  # sources are kept by their names
        (self.folder / programs).write_text(
            json.dumps({"code": f"def f(x):\n    {body}\n    return x", "input": "1", "split": "train"})
        )
        settings = yaml.safe_load((folder / CONFIG_FILE).read_text())
        settings["data"]["task"] = {"kind": "programs", "path": programs, "tracer": tracer}
        (folder / CONFIG_FILE).write_text(yaml.safe_dump({**settings, **self.arm(folder)}))
        (folder / SEAL).unlink()
        seal_model(folder)
        return folder


@pytest.fixture
def here(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    monkeypatch.chdir(tmp_path)
    found = Here(tmp_path, run)
    yield found
    found.forget()


TRACERS = ({"isolation": "trusted"}, {"isolation": "none"}, {"python": "x/python3.11"})
RUNNING = (
    "evaluate x e.yaml --out evaluated",
    "simulate x program.py max_new_tokens=8",
    "simulate x program.py max_new_tokens=8 --forcing control_flow --check",
    "show x",
)
"""Commands that may run programs or start an interpreter."""
OTHERS = (
    "show evaluated",
    "report evaluated --out report",
    "push x me/x --dry-run --private",
    "measure measure.yaml --out measured",
    "compare logs logs --out compared",
)


def assert_ended_well(ended: Ended) -> None:
    assert ended.status in (0, 2), ended
    assert "Traceback" not in ended.errors


@pytest.mark.parametrize("tracer", TRACERS, ids=str)
def test_a_strangers_checkpoint_runs_nothing_outside_the_sandbox(here: Here, tracer: dict[str, str]) -> None:
    here.checkpoint(tracer)
    said = {words: remedy(words.split()) for words in (*RUNNING, *OTHERS)}
    load_checkpoint("x")
    assert here.opened == set()
    assert SECRET not in str(said).replace("│", "")
    for ended in said.values():
        assert_ended_well(ended)
    ((key, value),) = tracer.items()
    left_out = f"x/config.yaml: task.tracer.{key} {value!r} is left out: what you give decides"
    assert [words for words, ended in said.items() if left_out in ended.errors] == [*RUNNING]
    assert [words for words, ended in said.items() if ended.status] == ["compare logs logs --out compared"]
    # The user's own word opens the door.
    ended = remedy(["show", "x", f"data.task.tracer.{key}={value}"])
    assert here.opened == ({key, value} & {"python", "trusted"})
    assert (SECRET in ended.output.replace("│", "")) == (value == "none")


@pytest.mark.parametrize(("plugin", "door"), [("x/helper.py", "path"), (HELPERS[1], "module")])
def test_a_plugin_of_a_stranger_is_imported_where_the_user_names_it(here: Here, plugin: str, door: str) -> None:
    here.checkpoint({})
    assert remedy(["show", "x"]).status == 0
    assert here.opened == set()
    here.write("e.yaml", {**here.evaluation, "plugins": [plugin]})
    for words in (["show", "x", "--plugin", plugin], ["evaluate", "x", "e.yaml", "--out", "evaluated"]):
        assert remedy(words).status == 0
        assert here.opened == {door}
        (here.folder / f"came-{door}").unlink()
        here.forget()


def test_a_merge_of_a_strangers_adapters_imports_nothing(here: Here) -> None:
    adapters = {"kind": "pretrained", "name_or_path": str(here.run), "lora": {"r": 2}}
    lora = trained(here.folder, "lora", model=adapters)
    settings = yaml.safe_load((lora / CONFIG_FILE).read_text())
    (lora / CONFIG_FILE).write_text(yaml.safe_dump({**settings, **here.arm(lora)}))
    seal_model(lora)
    assert remedy(["merge", "lora", "--out", "merged"]).status == 0
    assert (here.folder / "merged" / "README.md").exists()
    assert here.opened == set()


def test_a_file_that_is_named_is_the_users_and_one_in_a_folder_is_not(here: Here) -> None:
    x = here.checkpoint({})
    (x / CONFIG_FILE).rename(x / TRAIN)  # as an experiment's run has it
    assert remedy(["show", "x"]).status == 0
    assert here.opened == set()
    assert remedy(["show", "x/train.yaml"]).status == 0
    assert here.opened == {"path", "module"}


def test_a_run_that_is_continued_imports_nothing_that_lies_in_it(here: Here) -> None:
    run = trained(here.folder, "run")
    names = here.arm(run)
    for folder in (run, run / "checkpoint-2"):
        settings = yaml.safe_load((folder / CONFIG_FILE).read_text())
        (folder / CONFIG_FILE).write_text(yaml.safe_dump({**settings, **names}))
    (run / "checkpoint-2" / SEAL).unlink()
    seal(run / "checkpoint-2", 2, 1)
    config = load(RunConfig, here.folder / "run.yaml", ["train.max_steps=3"])
    train(config, resume=True)
    assert "plugins: []" in (run / CONFIG_FILE).read_text()
    assert here.opened == set()


def test_an_experiment_takes_over_nothing_of_a_folder_that_was_there(here: Here) -> None:
    group = {"base": RUN, "evaluate": here.evaluation, "runs": {"a": {}}}
    config = build(ExperimentConfig, {"name": "e", "output": "e", "groups": {"g": group}})
    (job,) = expand(config, "e.yaml")
    prepare(job)
    mine = {name: (job.folder / name).read_text() for name in (TRAIN, EVALUATE)}
    for trial in (job, job._replace(evaluate=None)):
        for name in mine:
            content = yaml.safe_load(mine[name])
            (job.folder / name).write_text(yaml.safe_dump({**content, **here.arm(job.folder)}))
        prepare(trial)
        assert (job.folder / TRAIN).read_text() == mine[TRAIN]
        assert (job.folder / EVALUATE).exists() == (trial is job)
    assert here.opened == set()


def test_a_strangers_data_set_is_data(here: Here) -> None:
    config = here.write("data.yaml", {"data": DATA, "write": {"splits": {"train": 4}, "shard_size": 4}})
    assert remedy(["generate", config, "--out", "d"]).status == 0
    d = here.folder / "d"
    names = here.arm(d)
    here.write("d/config.yaml", {**yaml.safe_load(config.read_text()), **names})
    manifest = {**read_json(d / MANIFEST, ""), "plugins": dict.fromkeys(names["plugins"], "")}
    write_json(d / MANIFEST, manifest)
    shard = d / "data" / "train-00000-of-00001.parquet"
    write_table(shard, pq.read_table(shard), digest_of(manifest))
    for words in ("show d", "push d me/d --dry-run --private"):
        assert remedy(words.split()).status == 0
    here.write("t.yaml", {**RUN, "output": "t", "shards": "d", "tokenizer": {"kind": "chars"}})
    train(load(RunConfig, "t.yaml"))
    ended = remedy(["generate", config, "--out", "d"])
    assert "another data set (it differs in plugins)" in ended.errors
    assert here.opened == set()


def test_what_needs_a_plugin_names_it(here: Here) -> None:
    settings = {**RUN, "data": {**DATA, "task": {"kind": "unheard_of"}}, "plugins": ["x/\x1b.py", "unheard"]}
    (here.folder / "x").mkdir()
    here.write("x/config.yaml", settings)
    for words in ("show x", "evaluate x e.yaml --out evaluated", "push x me/x --dry-run --private"):
        ended = remedy(words.split())
        assert ended.status == 2
        if not words.startswith("push"):  # which finds no seal
            assert "unknown task 'unheard_of'" in ended.errors
            says = r"; x/config.yaml names plug-ins: give --plugin 'x/\x1b.py' --plugin 'unheard' if you trust them"
            assert says in ended.errors


@pytest.mark.parametrize("name", [CONFIG_FILE, SEAL, "trace_tokenizer.json"])
def test_files_that_cannot_be_read_to_their_end_are_one_line(here: Here, name: str) -> None:
    path = here.checkpoint({}) / name
    for make in (lambda: os.mkfifo(path), lambda: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 12 << 30)):
        path.unlink()
        make()
        for words in ("evaluate x e.yaml --out evaluated", "simulate x program.py", "push x me/x --dry-run --private"):
            ended = remedy(words.split(), 20)
            assert ended.status == 2, ended
            assert name in ended.errors
            assert len(ended.errors.splitlines()) == 1
