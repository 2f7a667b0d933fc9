"""An evaluation that is killed (SIGKILL) and given again has the records of one that was not, to the byte."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from remedy.eval.records.folder import GENERATIONS, RECORDS, REQUEST, UNFINISHED
from remedy.models.loading import load_checkpoint
from tests.contract_server import ContractServer
from tests.eval.test_distributed import DRIVER
from tests.evaluations import assert_the_same, of_random_weights, unfinished
from tests.launch.in_process import remedy
from tests.train.launching import finished, start


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A checkpoint of random weights, and how it is evaluated."""
    diagnostic = {"kind": "permutation", "lengths": [2], "forcing": ["free"], "examples": 8}
    return of_random_weights(tmp_path_factory.mktemp("inputs"), diagnostic, 300)


@pytest.mark.slow
def test_killed_it_goes_on_and_asks_its_server_for_what_is_missing(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    checkpoint, config = inputs
    server = ContractServer(*load_checkpoint(str(checkpoint)))
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    with server.running() as url:

        def command(out: Path) -> list[str]:
            backend = [f"backend.url={url}", "backend.model=tiny"]
            return ["evaluate", str(checkpoint), str(config), "--out", str(out), "--name", "x", *backend]

        assert remedy(command(whole), 120).status == 0
        asked = server.posts
        alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "KILLED": "0"}
        finished(start([DRIVER, *command(torn)[1:]], **alone), -signal.SIGKILL)
        assert unfinished(torn)[-1] == "half a li"
        server.posts = 0
        ended = remedy(command(torn), 120)
        assert ended.status == 0, ended.errors
        assert server.posts < asked
        for folder in (RECORDS, GENERATIONS):
            (written,) = (path.relative_to(whole) for path in (whole / folder).iterdir())
            assert (whole / written).read_bytes() == (torn / written).read_bytes()
        assert_the_same(whole, torn)
        assert (whole / REQUEST).read_bytes() == (torn / REQUEST).read_bytes()
        assert not (torn / UNFINISHED).exists()
        # Killed after the records, before what led to them was cleared away.
        left = torn / UNFINISHED / written.stem
        left.mkdir(parents=True)
        (left / "0.jsonl").write_text("half a li")
        assert remedy(command(torn), 120).status == 0
        assert not (torn / UNFINISHED).exists()
