"""Every command of the README and of docs/ is run, on a smaller scale where it trains or generates much, by the program it names."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from remedy.eval.report.page import compose
from remedy.launch.cli import MAIN, TOOLS
from remedy.launch.experiment import ExperimentConfig
from remedy.launch.jobs import expand
from remedy.launch.reference import settings_class
from remedy.launch.runner import run
from remedy.settings import load
from tests.launch.in_process import remedy as in_process
from tests.tiny_cwm import write_tiny_cwm
from tests.train.launching import finished, start

ROOT = Path(__file__).resolve().parent.parent
FIRST = ("README.md", "docs/data.md", "docs/training.md", "docs/evaluation.md")  # each uses what those before it made
PAGES = [ROOT / name for name in FIRST]
PAGES += sorted({ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")} - set(PAGES))
# Blocks that are marked as `sh` need a server, which is not here.
BLOCKS = [block for page in PAGES for block in re.findall(r"```bash\n(.*?)```", page.read_text("utf-8"), re.DOTALL)]
LINES = [line.split("  #")[0].strip() for block in BLOCKS for line in block.splitlines() if line.strip()]
COMMANDS = list(dict.fromkeys(LINES))

MODEL = "tiny-cwm"
SHARDS = ["write.splits.train=20", "write.splits.validation=4", "write.splits.test=4", "write.shard_size=4"]
STEPS = ["train.max_steps=3", "train.batch_size=4", "train.save_steps=2", "train.threads=1", "tracking.report_to=[]"]
TINY = ["model.num_hidden_layers=2", "model.hidden_size=16", "model.num_attention_heads=2", "train.precision=fp32"]
FEW = ["diagnostics.0.examples=2", "max_new_tokens=60", "batch_size=8"]
SMALLER = {
    "configs/data/strings.yaml": SHARDS,
    "configs/data/permutation.yaml": SHARDS,
    "configs/train/permutation.yaml": [*STEPS, *TINY],
    "configs/train/strings.yaml": [*STEPS, *TINY, "data.task.depth=1", "tokenizer.vocab_size=400"],
    "configs/train/cwm_lora.yaml": [
        *STEPS,
        f"model.name_or_path={MODEL}",
        f"tokenizer.name_or_path={MODEL}",
        "train.micro_batch_size=null",
        "train.precision=fp32",
        "train.dataloader_num_workers=0",
        "mixture.permutations.set.task.length=2",
        "data.task.depth=1",
        "data.reveal.max_tokens=400",
    ],
    "configs/evaluate/any_model.yaml": [*FEW, "diagnostics.0.lengths=[2]"],
    "configs/evaluate/permutation.yaml": [*FEW, "diagnostics.0.lengths=[2]"],
    "configs/evaluate/composition.yaml": [
        *FEW,
        "diagnostics.0.depths=[2]",
        "diagnostics.0.functions=[mirror_str, add_prefix]",
    ],
    "configs/evaluate/programs.yaml": [
        "max_new_tokens=150",
        "diagnostics.0.rewrites=[none, all]",
        "diagnostics.0.sources=[{path: examples/functions.jsonl}]",
    ],
    "configs/evaluate/own_functions.yaml": ["max_new_tokens=150"],
    "configs/measure/programs.yaml": [
        "sources=[{path: examples/functions.jsonl}]",
        "tokenizers={characters: {kind: chars}}",
        "costs.string_encodings=[plain]",
    ],
}
"""For each configuration that the README's commands name, the overrides that make it small."""
QUICKSTART = "runs/quickstart"
"""The folder in the names of what the quickstart makes: the quickstart's test runs the commands that take it."""
AT_ONCE = {"harvest", "show", "rewrite", "merge", "push", "report", "simulate", "compare", "list"}
"""Commands of `remedy` that take no such configuration and are quick as they are."""


def smaller(command: str) -> list[str]:
    """The command's words with overrides that make it small, and launchers asked for two processes.

    A command that is not known here fails the test: it could run for hours.
    """
    words = [MODEL if word == "facebook/cwm" else word for word in shlex.split(command)]
    if words[0] == "torchrun":
        words[words.index("--nproc_per_node") + 1] = "2"
    if words[0] == "deepspeed":
        words[1:1] = ["--num_gpus", "2"]
    configs = [word for word in words if word.startswith("configs/")]
    if words[:2] == ["remedy", "export-benchmark"]:
        return words + [f"{Path(config).stem}.diagnostics.0.examples=2" for config in configs]
    if words[0] == "remedy" and not configs and words[1] in AT_ONCE:
        return words
    if len(configs) != 1 or configs[0] not in SMALLER:
        pytest.fail(f"the README's {command!r} is not known here: say in SMALLER how it runs on a small scale")
    return words + SMALLER[configs[0]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder laid out like the checkout, where outputs may be written."""
    path = tmp_path_factory.mktemp("checkout")
    for name in ("configs", "launch", "examples"):
        (path / name).symlink_to(ROOT / name)
    write_tiny_cwm(path / MODEL)
    return path


def run_command(words: list[str], cwd: Path) -> str:
    """What a command prints. `remedy` runs in this process, which has imported PyTorch once."""
    if words[0] == "remedy":
        ended = in_process(words[1:], 500)
        assert ended.status == 0, f"{shlex.join(words)}\n{ended.output[-3000:]}\n{ended.errors[-3000:]}"
        return ended.output
    binaries = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_command_of_the_readme_runs_in_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    elsewhere = ("make ", "remedy run ", "python benchmarks/")  # the tests below
    ran = [command for command in COMMANDS if not command.startswith(elsewhere) and QUICKSTART not in command]
    assert len(ran) >= 15
    started = set()
    for command in ran:
        words = smaller(command)
        script = next((number for number, word in enumerate(words) if word.startswith("launch/")), 0)
        launcher = words[0]
        if script and launcher in started:  # once is enough to know that it starts what it is given
            output = finished(start(words[script:], 1 if words[0] == "python" else 2))
        else:
            output = run_command(words, folder)
        started.add(launcher)
        if "--text" in command:
            assert output.startswith("<|begin_of_text|>")
    assert (folder / "results" / "report" / "report.html").exists()
    assert ">Traced programs: right answers</h3>" in (folder / "results" / "programs" / "report.html").read_text()


def test_a_command_that_nobody_made_small_fails_the_test() -> None:
    for command in ("remedy train configs/train/new.yaml", "remedy forecast runs/x", "python other.py"):
        with pytest.raises(pytest.fail.Exception, match="is not known here"):
            smaller(command)


@pytest.mark.parametrize("path", SMALLER)
def test_what_makes_a_command_small_are_settings_of_its_file(path: str) -> None:
    command = {"data": "generate"}.get(path.split("/")[1], path.split("/")[1])
    load(settings_class(command), ROOT / path, SMALLER[path])


def test_make_targets_exist() -> None:
    for command in COMMANDS:
        if command.startswith("make "):
            run_command([*shlex.split(command), "--dry-run"], ROOT)


def test_the_experiments_of_the_readme_are_valid_and_every_run_is_compared() -> None:
    for command in COMMANDS:
        if command.startswith("remedy run "):
            path = command.split()[2]
            config = load(ExperimentConfig, ROOT / path)
            names = {job.variant for job in expand(config, path)}
            compared = {side.run for c in config.comparisons for side in (c.baseline, c.treatment)}
            assert compared == names


@pytest.mark.slow
def test_the_quickstart_runs_end_to_end_and_again_without_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = ["groups.permutation.seeds=[0]", "groups.strings.seeds=[0, 1]", "max_steps=4", "max_examples=4"]
    overrides = [f"output={tmp_path / 'quickstart'}", *fewer]
    config = load(ExperimentConfig, ROOT / "configs" / "experiment" / "quickstart.yaml", overrides)
    page = run(config, "quickstart")
    composed = compose(sorted((tmp_path / "quickstart").glob("*/*/evaluation")), config.comparisons)
    assert len(composed.verdicts) == len(config.comparisons)
    written = {p: p.stat().st_mtime_ns for p in (tmp_path / "quickstart").rglob("*.parquet")}
    models = {p: p.stat().st_mtime_ns for p in (tmp_path / "quickstart").glob("*/*/model/model.safetensors")}
    assert len(models) == 6
    assert run(config, "quickstart") == page
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    after = [command.replace(QUICKSTART, "quickstart") for command in COMMANDS if QUICKSTART in command]
    assert all("\nright: " in run_command(shlex.split(command), tmp_path) for command in after)
    assert written == {p: p.stat().st_mtime_ns for p in written}
    assert models == {p: p.stat().st_mtime_ns for p in models}


@pytest.mark.parametrize("command", [*MAIN, *TOOLS])
def test_every_command_has_help(command: str) -> None:
    assert f" {command} [OPTIONS]" in in_process([command, "--help"], 60).output


@pytest.mark.parametrize("script", ["train", "evaluate"])
def test_the_launch_scripts_have_help(script: str) -> None:
    assert "key=value" in run_command([sys.executable, f"launch/{script}.py", "--help"], ROOT)
