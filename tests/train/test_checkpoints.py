"""Checkpoints: the newest intact one is found, damaged ones are quarantined, and a kill while saving costs nothing."""

import json
import os
import signal
from pathlib import Path

import pytest

from remedy.settings import UserError, load
from remedy.train.checkpoints import SEAL, integrity_error, latest_intact, quarantine, seal
from remedy.train.config import RunConfig
from remedy.train.run import train
from tests.train.launching import SCRIPT, curve, finished, in_process, start, written


def checkpoint(output: Path, step: int, sealed: bool = True) -> Path:
    folder = output / f"checkpoint-{step}"
    (folder / "part").mkdir(parents=True)
    (folder / "weights").write_bytes(bytes(range(256)) * 40)
    (folder / "part" / "state").write_text(f"state of {step}")
    if sealed:
        seal(folder, step, world_size=2)
    return folder


def test_the_newest_whole_checkpoint_is_found_whatever_lies_beside_it(tmp_path: Path) -> None:
    whole = checkpoint(tmp_path, 9)
    checkpoint(tmp_path, 2)
    cut = checkpoint(tmp_path, 100, sealed=False)
    (tmp_path / "checkpoint-best").mkdir()
    found, damaged = latest_intact(tmp_path)
    assert found is not None
    assert (found.path, found.step, found.world_size) == (whole, 9, 2)
    assert damaged == {cut: "it was not written to the end"}
    (tmp_path / "checkpoint-3").symlink_to(whole)
    with pytest.raises(UserError, match="checkpoint-3: is a link to another place"):
        latest_intact(tmp_path)


@pytest.mark.parametrize("harm", ["flipped", "missing", "seal"])
def test_a_damaged_checkpoint_is_named_kept_aside_and_skipped(harm: str, tmp_path: Path) -> None:
    good, bad = checkpoint(tmp_path, 1), checkpoint(tmp_path, 2)
    weights = bad / "weights"
    if harm == "flipped":
        content = bytearray(weights.read_bytes())
        content[5000] ^= 1
        weights.write_bytes(content)
    elif harm == "missing":
        weights.unlink()
    else:
        (bad / SEAL).write_text("[")
    found, damaged = latest_intact(tmp_path)
    assert found is not None
    assert found.path == good
    (tmp_path / "latest").symlink_to("checkpoint-2")
    (sentence,) = quarantine(tmp_path, found, damaged)
    assert os.readlink(tmp_path / "latest") == "checkpoint-1"
    assert sentence.startswith("checkpoint-2 is damaged: ")
    assert ("weights" in sentence) == (harm != "seal")
    assert (tmp_path / "damaged-checkpoint-2" / "part" / "state").exists()
    assert latest_intact(tmp_path)[1] == {}


KILL_WHILE_SAVING = """
import os, runpy, signal, sys
from remedy.train import checkpoints
seal = checkpoints.seal
def killing(folder, step, world_size):
    if step == 12:
        os.kill(os.getpid(), signal.SIGKILL)
    seal(folder, step, world_size)
checkpoints.seal = killing
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_killed_while_saving_the_checkpoint_before_is_used_and_old_ones_are_pruned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "remedy")
    config, out, whole = written(tmp_path), tmp_path / "run", tmp_path / "whole"
    settings = ["train.save_steps=4", "train.save_total_limit=1", "train.max_steps=16"]
    (tmp_path / "driver.py").write_text(KILL_WHILE_SAVING)
    words = [str(tmp_path / "driver.py"), SCRIPT, config, f"output={out}", *settings]
    finished(start(words), -signal.SIGKILL)
    assert sorted(p.name for p in out.glob("checkpoint-*")) == ["checkpoint-12", "checkpoint-8"]
    assert integrity_error(out / "checkpoint-12") == "it was not written to the end"
    assert os.readlink(out / "latest") == "checkpoint-8"

    run = load(RunConfig, config, [f"output={out}", *settings])
    train(run, resume=True)
    assert "checkpoint-12: it was not written to the end; removed" in caplog.text
    assert [p.name for p in out.glob("checkpoint-*")] == ["checkpoint-16"]
    assert os.readlink(out / "latest") == "checkpoint-16"
    in_process(config, f"output={whole}", *settings)
    assert curve(out) == curve(whole)

    # A damaged last checkpoint: nothing older is left, so the run starts over, and says why.
    state = out / "checkpoint-16" / "trainer_state.json"
    state.write_text(state.read_text()[:-20])
    train(run, resume=True)
    assert "checkpoint-16 is damaged: trainer_state.json is damaged" in caplog.text
    assert curve(out) == curve(whole)
    assert json.loads((out / "damaged-checkpoint-16" / SEAL).read_text())["step"] == 16
