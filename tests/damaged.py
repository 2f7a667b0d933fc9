"""A small project from data to evaluation, ways to damage its files, and what each command makes of them."""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml
from rich.console import Console

from remedy.data_gen.config import DataConfig
from remedy.eval.checkpoint import for_checkpoint, weights_digest
from remedy.eval.config import EvalConfig
from remedy.eval.costs.measure import MeasureConfig, measure
from remedy.eval.evaluate import evaluate
from remedy.eval.report.page import compose
from remedy.launch.console import in_words
from remedy.launch.generate import generate
from remedy.launch.show import show
from remedy.models.loading import load_checkpoint
from remedy.models.tokenizer import build_tokenizer
from remedy.settings import load
from remedy.train import shards
from remedy.train.config import RunConfig
from remedy.train.run import train
from remedy.train.shards import ShardDataset

DATA = {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": [2, 4]}, "format": "symbolic"}
CONFIGS: dict[str, Any] = {
    "data": {
        "data": DATA,
        "tokenizer": {"kind": "symbols"},
        "write": {"splits": {"train": 12}, "shard_size": 4},
    },
    "train": {
        "name": "r",
        "data": DATA,
        "tokenizer": {"kind": "symbols"},
        "model": {"mixers": ["gru"], "hidden_size": 8},
        "train": {"max_steps": 4, "batch_size": 3, "logging_steps": 1, "save_steps": 2, "threads": 1},
        "tracking": {"wandb": False},
    },
    "evaluate": {
        "diagnostics": [{"kind": "permutation", "lengths": [2, 3], "examples": 3}],
        "max_new_tokens": 40,
        "threads": 1,
    },
    "measure": {
        "sources": [{"path": "programs.jsonl", "tracer": {"isolation": "trusted"}}],
        "tokenizers": {"chars": {"kind": "chars"}},
    },
}
IRRELEVANT = {
    "out/README.md": "the card, which is written anew by every `generate`",
    "run/training_args.bin": "Transformers' pickle, which nothing here opens",
    "run/metrics.jsonl": "a log of losses: no result is made of it",
}
"""Files that no result depends on."""
SPECIAL = (b"", b"[]", b"null", b"{}", b"[" * 100_000, b"\xff\xfe", b"5", b'""', b'{"digest": "x"}')


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder, as a user does: names in messages are relative to it."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


class Outcome(NamedTuple):
    """What became of a command: its result, or the message with which it was refused."""

    result: Any
    said: str


class Project:
    """Files of one project in a folder, with what every command gives while they are whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, settings in CONFIGS.items():
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(settings))
        (folder / "programs.jsonl").write_text(
            '{"id": "a", "code": "def f(x):\\n    y = x + 1\\n    return y", "input": "1"}\n'
        )
        with inside(folder), contextlib.redirect_stdout(io.StringIO()):
            generate("data.yaml", [], Path("out"), "0/1", 1)
            train(load(RunConfig, "train.yaml", ["output=run", "shards=out"]))
            measure(load(MeasureConfig, "measure.yaml"), Path("measured"))
            self.evaluate(Path("evaluated"))
        self.whole = self.files()
        self.expected = {name: self.do(name) for name in self.commands()}

    def files(self) -> dict[str, bytes]:
        """All files that commands wrote."""
        tops = ("out", "run", "evaluated", "measured")
        paths = (path for top in tops for path in sorted((self.folder / top).rglob("*")))
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in paths if path.is_file()}

    def restore(self) -> None:
        """Make all files what they were."""
        for name, content in self.files().items():
            if name not in self.whole:
                (self.folder / name).unlink()
            elif content != self.whole[name]:
                (self.folder / name).write_bytes(self.whole[name])
        for name, content in self.whole.items():
            if not (self.folder / name).exists():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / name).write_bytes(content)

    def commands(self) -> dict[str, Callable[[], Any]]:
        """What reads the files, each giving a result to compare."""
        return {
            "generate": self._generate,
            "rows": self._rows,
            "resume": self._resume,
            "load": lambda: self.evaluate(None),
            "evaluate": lambda: self.evaluate(Path("evaluated")),
            "show": self._show,
            "report": lambda: [
                (s.title, s.rows, s.note) for s in compose([Path("evaluated"), Path("measured")]).sections
            ],
        }

    def do(self, command: str) -> Outcome:
        """Run a command. An exception that a user would see as a traceback is raised."""
        shards._columns.cache_clear()
        try:
            with inside(self.folder), contextlib.redirect_stdout(io.StringIO()):
                return Outcome(self.commands()[command](), "")
        except Exception as error:
            words = in_words(error)
            if words is None:
                raise
            return Outcome(None, words)

    def _generate(self) -> dict[str, bytes]:
        generate("data.yaml", [], Path("out"), "0/1", 1)
        return {path.name: path.read_bytes() for path in Path("out/data").iterdir()}

    def _rows(self) -> list[Any]:
        config = load(RunConfig, "train.yaml", ["shards=out"])
        data = DataConfig.model_validate(DATA)
        rows = ShardDataset(Path("out"), data, build_tokenizer(config.tokenizer, data), config.train)
        return [[array.tolist() for array in row] for row in rows.__getitems__(range(len(rows)))]

    def _resume(self) -> bytes:
        train(load(RunConfig, "train.yaml", ["output=run", "shards=out"]), resume=True)
        return Path("run/model.safetensors").read_bytes()

    def evaluate(self, out: Path | None) -> Any:
        """Evaluate the run into a folder, or only load it."""
        config = load(EvalConfig, "evaluate.yaml")
        subject = for_checkpoint("run", config)
        model, tokenizer = load_checkpoint("run")
        if out is None:
            return subject.data, subject.trained_on, weights_digest(model), tokenizer.fingerprint, repr(model)
        evaluate(model, tokenizer, subject, config, out, "r")
        return {path.as_posix(): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}

    def _show(self) -> str:
        console = Console(file=io.StringIO(), width=200)
        show("evaluated", [], 1, "", None, "length=3", True, None, console)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()


def damage(project: Project, chance: random.Random) -> tuple[list[str], str]:
    """Damage one or two files of a project in one way; their names, and what was done."""
    names = sorted(project.whole)
    name = chance.choice(names)
    path, content = project.folder / name, bytearray(project.whole[name])
    place = chance.randrange(len(content)) if content else 0
    kind = chance.choice(
        ["flip", "flip", "flip", "cut", "empty", "delete", "swap", "block", "append", "special", "folder"]
    )
    if kind == "flip" and content:
        bit = chance.randrange(8)
        content[place] ^= 1 << bit
        path.write_bytes(content)
        return [name], f"bit {bit} of byte {place} flipped"
    if kind == "cut":
        path.write_bytes(content[:place])
        return [name], f"cut after {place} of {len(content)} bytes"
    if kind == "block" and content:
        size = chance.choice([4, 64, 4096])
        content[place : place + size] = bytes(min(size, len(content) - place))
        path.write_bytes(content)
        return [name], f"zeros from byte {place} on"
    if kind == "append":
        path.write_bytes(content + chance.randbytes(chance.choice([1, 100])))
        return [name], "bytes appended"
    if kind == "special":
        found = chance.choice(SPECIAL)
        path.write_bytes(found)
        return [name], f"replaced by {found[:20]!r}"
    if kind == "swap":
        other = chance.choice([one for one in names if one.rpartition(".")[2] == name.rpartition(".")[2]])
        path.write_bytes(project.whole[other])
        (project.folder / other).write_bytes(content)
        return [name, other], f"swapped with {other}"
    if kind == "delete":
        path.unlink()
        return [name], "deleted"
    if kind == "folder" and path.parent.name != "data":
        shutil.rmtree(path.parent)
        return [one for one in names if one.startswith(f"{path.relative_to(project.folder).parent}/")], "folder deleted"
    path.write_bytes(b"")
    return [name], "emptied"


def verdict(project: Project, command: str, names: list[str]) -> str:
    """What is wrong with a command's answer to the damage; empty if nothing is."""
    torch.manual_seed(0)
    found, expected = project.do(command), project.expected[command]
    if found.said:
        if len(found.said.splitlines()) != 1:
            return f"{command}: more than one line: {found.said}"
        near = {part for name in names for part in (name, Path(name).name, str(Path(name).parent))}
        return "" if any(part in found.said for part in near) else f"{command}: does not name the file: {found.said}"
    return "" if found.result == expected.result else f"{command}: another result, without a word"
