"""The fine-tuning of a code world model, as the shipped file has it, on a model of the same architecture with four layers: every
arm, the model as it is among them, replay, what is forgotten, and the report."""

import json
from pathlib import Path

import pytest
import torch
from transformers import CwmForCausalLM

from remedy.eval.report.page import compose
from remedy.launch.experiment import ExperimentConfig
from remedy.launch.jobs import Job, expand, prepare
from remedy.launch.runner import evaluate_run, report_all
from remedy.models.loading import load_checkpoint
from remedy.models.model_manifest import read_training
from remedy.settings import build, load
from remedy.train.config import RunConfig
from remedy.train.data import TraceDataset
from remedy.train.run import train
from tests.tiny_cwm import write_tiny_cwm

ROOT = Path(__file__).resolve().parents[2]
FLAGSHIP = ROOT / "configs" / "experiment" / "cwm_lora.yaml"
CRUXEVAL = [
    {"id": f"sample_{n}", "code": f"def f(x):\n    y = x + {n}\n    return y", "input": "1", "output": str(n + 1)}
    for n in range(3)
]
HUMANEVAL = {
    "task_id": "HumanEval/0",
    "prompt": "def twice(x):\n",
    "canonical_solution": "    return 2 * x\n",
    "test": "def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(4) == 8\n",
    "entry_point": "twice",
}


def small(model: Path) -> list[str]:
    """What makes the 32B model's experiments those of another one, on this machine."""
    train = "deepspeed=null batch_size=2 micro_batch_size=null dataloader_num_workers=0 precision=fp32 threads=1"
    return [
        *(f"groups.cwm.base.{section}.name_or_path={model}" for section in ("model", "tokenizer")),
        *(f"groups.cwm.base.train.{setting}" for setting in train.split()),
        "groups.cwm.base.tracking={report_to: []}",
        *(f"groups.cwm.evaluate.{setting}" for setting in ("max_new_tokens=24", "threads=1")),
    ]


@pytest.fixture(scope="module")
def flagship(tmp_path_factory: pytest.TempPathFactory) -> ExperimentConfig:
    """The shipped experiment with a tiny model, a few programs and two steps."""
    folder = tmp_path_factory.mktemp("flagship")
    model = write_tiny_cwm(folder / "tiny-cwm")
    for name, lines in (("cruxeval", CRUXEVAL), ("humaneval", [HUMANEVAL])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    changes = [
        f"output={folder / 'out'}",
        "max_steps=2",
        "processes=1",
        *(
            f"groups.cwm.evaluate.diagnostics.0.sources.{number}.path={folder / f'{name}.jsonl'}"
            for number, name in enumerate(("cruxeval", "humaneval"))
        ),
        *small(model),
        "groups.cwm.base.data.task.depth=1",
        "groups.cwm.base.data.task.input_length=[2, 3]",
        "groups.cwm.base.data.reveal.max_tokens=700",
        "groups.cwm.runs.short-budget={data.reveal.max_tokens: 600}",
        "groups.cwm.base.mixture.permutations.set.task.length=3",
    ]
    return load(ExperimentConfig, FLAGSHIP, changes)


@pytest.mark.slow
def test_the_flagship_runs_end_to_end(flagship: ExperimentConfig) -> None:
    jobs = [job for job in expand(flagship, "flagship") if not job.name.endswith(("-1", "-2"))]  # a seed of each recipe
    for job in jobs:
        prepare(job)
        train(job.train)
        evaluate_run(job.folder)
    _check_untouched(next(job for job in jobs if job.name == "base-model"))
    replay = next(job for job in jobs if job.name == "replay")
    tokenizer = load_checkpoint(replay.train.output)[1]
    rows = TraceDataset(
        build(RunConfig, {**replay.train.model_dump(), "train": {"max_steps": 15, "batch_size": 4}}), tokenizer
    )
    parts = [member.part for row in range(60) for member in rows.examples_of(row)]
    assert {name: parts.count(name) for name in parts} == {
        name: part.weight for name, part in replay.train.mixture.items()
    }

    page = report_all(flagship, jobs)
    text = (page.parent / "report.md").read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith("| base-model |"))
    assert "untrained: 0 steps" in row
    assert "0, not trained" in next(
        line for line in text.split("### Recipes")[1].splitlines() if "| base-model |" in line
    )
    found = compose([job.folder / "evaluation" for job in jobs], flagship.comparisons)
    assert len(found.verdicts) == len(flagship.comparisons)
    forgetting = [item for item in found.verdicts if item.comparison.failure == "forgetting"]
    assert len(forgetting) == 7
    assert {item.difference.seeds for item in forgetting} == {(1, 1)}
    assert forgetting[0].remarks == ("unequal: only the treatment was trained here",)
    assert "Forgetting answers at once: with replay" in text


def _check_untouched(job: Job) -> None:
    """The arm is the model that was given, to the bit, whatever stands beside it."""
    training = read_training(Path(job.train.output))
    assert training is not None
    assert (training["steps"], training["tokens"], training["flops"]) == (0, 0, 0.0)
    name = job.train.model.model_dump()["name_or_path"]
    ours, tokenizer = load_checkpoint(job.train.output, "cpu")
    theirs = CwmForCausalLM.from_pretrained(name).eval()
    ids = torch.arange(4, 40)[None]
    with torch.no_grad():
        assert torch.equal(ours(input_ids=ids).logits, theirs(input_ids=ids).logits)
    assert tokenizer.settings == job.train.tokenizer
