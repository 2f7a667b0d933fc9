"""An evaluation that is killed (SIGKILL) and given again has the records of one that was not, to the byte, with a server or without."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from remedy.eval.records.folder import GENERATIONS, RECORDS, UNFINISHED
from remedy.models.loading import load_checkpoint
from tests.contract_server import ContractServer
from tests.evaluations import assert_the_same, of_random_weights, unfinished
from tests.launch.in_process import remedy


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A checkpoint of random weights, and how it is evaluated."""
    diagnostic = {"kind": "permutation", "lengths": [2], "forcing": ["free"], "examples": 8}
    return of_random_weights(tmp_path_factory.mktemp("inputs"), diagnostic)


KILLED = """
import os, signal, sys
from remedy.eval.generators import Journal
from remedy.launch import cli

add, held = Journal.add, []

def killed(journal, *what):
    if len(held) == 3:
        with journal.path.open("a") as file:
            file.write("half a li")
        os.kill(os.getpid(), signal.SIGKILL)
    add(journal, *what)
    held.append(what)

Journal.add = killed
sys.argv[0] = "remedy"
cli.main()
"""
"""The command, killed while it writes the line of its fourth trace."""


@pytest.mark.slow
@pytest.mark.parametrize("served", [False, True], ids=["local", "served"])
def test_killed_it_goes_on(inputs: tuple[Path, Path], tmp_path: Path, served: bool) -> None:
    checkpoint, config = inputs
    server = ContractServer(*load_checkpoint(str(checkpoint)))
    with server.running() if served else nullcontext("") as url:
        backend = [f"backend.url={url}", "backend.model=tiny"] if served else []

        def command(out: Path) -> list[str]:
            return ["evaluate", str(checkpoint), str(config), "--out", str(out), "--name", "x", *backend]

        whole, torn = tmp_path / "whole", tmp_path / "torn"
        assert remedy(command(whole), 120).status == 0
        asked = server.posts
        child = subprocess.run([sys.executable, "-c", KILLED, *command(torn)], stdout=subprocess.DEVNULL, timeout=300)
        assert child.returncode == -signal.SIGKILL
        assert unfinished(torn)[-1] == "half a li"
        server.posts = 0
        ended = remedy(command(torn), 120)
        assert ended.status == 0, ended.errors
        assert server.posts < asked or not served
    (records,) = (path.relative_to(whole) for path in (whole / RECORDS).iterdir())
    assert (whole / records).read_bytes() == (torn / records).read_bytes()
    if served:  # in this process other examples share a batch then, which rounds log-probabilities otherwise
        assert (whole / GENERATIONS / records.name).read_bytes() == (torn / GENERATIONS / records.name).read_bytes()
    assert_the_same(whole, torn)
    assert request(whole) == request(torn)
    assert not (torn / UNFINISHED).exists()
    if not served:  # killed after the records, before what led to them was cleared away
        (torn / UNFINISHED / records.stem).mkdir(parents=True)
        (torn / UNFINISHED / records.stem / "0.jsonl").write_text("half a li")
        assert remedy(command(torn), 120).status == 0
        assert not (torn / UNFINISHED).exists()


def request(folder: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((folder / "evaluation.json").read_text())
    return found
