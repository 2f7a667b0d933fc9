"""Every command of the README and of docs/ is run, on a smaller scale where it trains or generates much, by the program it names."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from remedy.launch.experiment import ExperimentConfig, expand, run
from tests.tiny_cwm import write_tiny_cwm

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "docs" / "guide.md"]
PAGES += sorted({ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")} - set(PAGES))
BLOCKS = [block for page in PAGES for block in re.findall(r"```bash\n(.*?)```", page.read_text("utf-8"), re.DOTALL)]
LINES = [line.split("  #")[0].strip() for block in BLOCKS for line in block.splitlines() if line.strip()]
COMMANDS = list(dict.fromkeys(LINES))

STEPS = [
    "train.max_steps=2",
    "train.curriculum=[]",
    "train.batch_size=4",
    "train.logging_steps=1",
    "train.save_steps=2",
]
TINY = [
    "model.num_hidden_layers=2",
    "model.hidden_size=16",
    "model.num_attention_heads=2",
    "train.precision=fp32",
    "tracking.wandb=false",
    "train.threads=1",
]
SMALL_TRAIN = [*STEPS, *TINY, "data.task.length=4"]
SMALL_STRINGS = [*STEPS, *TINY, "data.task.depth=1", "tokenizer.vocab_size=400"]
SMALL_DATA = ["write.splits.train=20", "write.splits.validation=4", "write.splits.test=4", "write.shard_size=4"]


LORA_SMALL = [
    "mixture.permutations.set.task.length=2",
    "data.task.depth=1",
    "data.reveal.max_tokens=400",
    "train.dataloader_num_workers=0",
    "train.threads=1",
    "tracking.wandb=false",
]
OWN = "programs=[{path: examples/functions.jsonl}]"


def smaller(command: str, model: Path) -> list[str]:
    """The command's words with overrides that make it small, and launchers asked for two processes."""
    words = shlex.split(command)
    if words[:2] == ["remedy", "generate"]:
        return [*words, *SMALL_DATA]
    if "configs/train/permutation.yaml" in words:
        shrink = [
            o
            for o in SMALL_TRAIN
            if not any(w.startswith("data.task.length=") and o.startswith("data.task") for w in words)
        ]
        return [*words, *shrink]
    if "configs/train/cwm_lora.yaml" in words:
        own = [
            f"model.name={model}",
            f"tokenizer.name={model}",
            "train.gradient_accumulation_steps=1",
            "train.precision=fp32",
        ]
        return [words[0], "--num_gpus", "2", *words[1:], *STEPS, *own, *LORA_SMALL]
    if "configs/train/strings.yaml" in words:
        two = ["2" if words[i - 1] == "--nproc_per_node" else w for i, w in enumerate(words)]
        return [*two[:1], *(["--num_gpus", "2"] if two[0] == "deepspeed" else []), *two[1:], *SMALL_STRINGS]
    if words[:2] == ["remedy", "measure"]:
        return [
            *words,
            f"sources{OWN.removeprefix('programs')}",
            "tokenizers={characters: {kind: chars}}",
            "costs.string_encodings=[plain]",
        ]
    if words[:2] == ["remedy", "evaluate"] and ("code.yaml" in command or "own_functions" in command):
        own = [f"diagnostics.0.{OWN}"] if "code.yaml" in command else []
        few = ["budget=150", "diagnostics.0.rewrites=[none, all]"]
        return [str(model) if w == "facebook/cwm" else w for w in words] + [*own, *few]
    if words[:2] == ["remedy", "evaluate"]:
        few = ["diagnostics.0.examples=2", "budget=60", "batch_size=8"]
        short = ["diagnostics.0.depths=[2]"] if "composition" in command else ["diagnostics.0.lengths=[2]"]
        return [str(model) if w == "facebook/cwm" else w for w in words] + few + short
    return words


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder laid out like the checkout, where outputs may be written."""
    path = tmp_path_factory.mktemp("checkout")
    for name in ("configs", "launch", "examples"):
        (path / name).symlink_to(ROOT / name)
    model = path / "tiny-cwm"
    write_tiny_cwm(model)
    return path


def run_command(words: list[str], cwd: Path) -> str:
    binaries = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.slow
def test_every_command_of_the_readme_runs_in_order(folder: Path) -> None:
    elsewhere = ("make ", "remedy run ", "remedy sweep ", "python benchmarks/")  # the tests below
    ran = [command for command in COMMANDS if not command.startswith(elsewhere)]
    assert len(ran) >= 15
    for command in ran:
        output = run_command(smaller(command, folder / "tiny-cwm"), folder)
        if command.startswith("remedy trace"):
            assert output.startswith("<|begin_of_text|>")
    assert (folder / "results" / "report" / "report.html").exists()
    assert "<h2>Programs traced as code</h2>" in (folder / "results" / "programs" / "report.html").read_text()


def test_make_targets_exist() -> None:
    for command in COMMANDS:
        if command.startswith("make "):
            run_command([*shlex.split(command), "--dry-run"], ROOT)


def test_the_experiments_of_the_readme_are_valid_and_every_run_is_compared() -> None:
    from remedy.data_gen.settings import load

    for command in COMMANDS:
        if command.startswith(("remedy run ", "remedy sweep ")):
            path = command.split()[2]
            config = load(ExperimentConfig, ROOT / path)
            names = {job.name for job in expand(config, path)}
            compared = {side.run for c in config.comparisons for side in (c.baseline, c.treatment)}
            assert compared == (names if command.startswith("remedy run ") else set())


@pytest.mark.slow
def test_the_quickstart_runs_end_to_end_and_again_without_work(tmp_path: Path) -> None:
    from remedy.data_gen.settings import load

    few = [{"steps": 3, "set": {"task.length": 2}}, {"steps": 3, "set": {"task.length": 3}}]
    changes = [f"output={tmp_path / 'quickstart'}"]
    for group in ("permutation", "strings"):
        changes += [f"groups.{group}.evaluate.diagnostics.0.examples=4"]
    changes += ["groups.strings.evaluate.diagnostics.1.examples=4"]
    changes += [f"groups.permutation.base.train.curriculum={few}", "groups.strings.base.train.max_steps=3"]
    path = ROOT / "configs" / "experiment" / "quickstart.yaml"
    config = load(ExperimentConfig, path, changes)
    shortened = {
        name: {k: (few if k == "train.curriculum" else v) for k, v in settings.items()}
        for name, settings in config.groups["permutation"].runs.items()
    }
    groups = {**config.groups, "permutation": config.groups["permutation"].model_copy(update={"runs": shortened})}
    config = config.model_copy(update={"groups": groups})
    page = run(config, "quickstart")
    html = page.read_text()
    assert html.count("<tr class=") == len(config.comparisons)
    written = {p: p.stat().st_mtime_ns for p in (tmp_path / "quickstart").rglob("*.parquet")}
    models = {p: p.stat().st_mtime_ns for p in (tmp_path / "quickstart").glob("*/*/model/model.safetensors")}
    assert len(models) == 6
    assert run(config, "quickstart") == page
    assert written == {p: p.stat().st_mtime_ns for p in written}
    assert models == {p: p.stat().st_mtime_ns for p in models}


COMMAND_NAMES = ("generate", "trace", "rewrite", "train", "merge", "evaluate", "measure", "report", "run", "sweep")


@pytest.mark.parametrize(
    "words",
    [
        ["remedy"],
        *(["remedy", c] for c in COMMAND_NAMES),
    ],
)
def test_every_command_has_help(words: list[str]) -> None:
    arguments = [sys.executable, "-m", "remedy.launch.cli", *words[1:], "--help"]
    output = run_command(arguments, ROOT)
    assert "Usage" in output


def test_the_launch_script_has_help() -> None:
    assert "key=value" in run_command([sys.executable, "launch/train.py", "--help"], ROOT)
