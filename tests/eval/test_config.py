"""Settings of evaluations: every one does something, and one that would do nothing is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from remedy.checksums import read_json
from remedy.data_gen.config import DataConfig
from remedy.eval.checkpoint import for_checkpoint, load_evaluated
from remedy.eval.conditions import CheckpointInfo, conditions_of
from remedy.eval.config import EvalConfig
from remedy.eval.diagnostics import DIAGNOSTICS
from remedy.eval.evaluate import evaluate
from remedy.eval.records.schema import read_records
from remedy.settings import ConfigError, UserError, build
from tests.eval.test_evaluate import PERMUTATION, model_for

PROGRAMS = {"kind": "programs", "path": "examples/functions.jsonl"}
DATA: dict[str, dict[str, Any]] = {
    "permutation": {"task": {"kind": "permutation", "n": 3, "length": 4, "held_out_pairs": 1}, "format": "repl"},
    "composition": {
        "task": {
            "kind": "composition",
            "functions": ["mirror_str", "sort_chars"],
            "held_out_pairs": [["mirror_str", "mirror_str"]],
        }
    },
    "programs": {"task": PROGRAMS},
}
CHANGES: dict[str, dict[str, Any]] = {
    "permutation": {"lengths": [3], "reveals": [{"spacing": 2}], "repertoires": [2], "test_pairs": ["with"],
                    "forcing": ["action_forced"], "examples": 7},
    "composition": {"families": ["lists"], "functions": ["mirror_str"], "depths": [2], "forms": ["nested"], "test_pairs": ["with"],
                    "forcing": ["action_forced"], "examples": 7},
    "programs": {"sources": [{"path": "examples"}], "forcing": ["free"], "answer_only": [False], "rewrites": ["all"],
                 "reveals": [{"spacing": 2}], "string_encodings": ["spaced"], "examples": 1},
}  # fmt: skip
"""For every field of every diagnostic, a value that changes what is evaluated."""


def conditions(kind: str, **settings: Any) -> list[dict[str, Any]]:
    config = build(EvalConfig, {"diagnostics": [{"kind": kind, **settings}]}, "x")
    return [
        condition.model_dump()
        for condition in conditions_of(config, CheckpointInfo(build(DataConfig, DATA[kind], "x")))
    ]


@pytest.mark.parametrize("kind", CHANGES)
def test_every_setting_of_a_diagnostic_changes_what_is_evaluated(kind: str) -> None:
    assert {"kind", *CHANGES[kind]} == set(DIAGNOSTICS[kind].model_fields)
    usual = conditions(kind)
    for field, value in CHANGES[kind].items():
        assert conditions(kind, **{field: value}) != usual, field


def evaluation(**settings: Any) -> EvalConfig:
    diagnostic = {"kind": "permutation", "lengths": [3], "forcing": ["free"], "examples": 4}
    return build(EvalConfig, {"diagnostics": [diagnostic], **settings}, "x")


def test_every_setting_of_an_evaluation_does_something(tmp_path: Path) -> None:
    tested = "diagnostics set split trained_on batch_size max_new_tokens threads precision backend"
    # tests/models/test_four_bit.py, tests/models/test_devices.py, tests/launch/test_first_steps.py
    elsewhere = "load_in_4bit device_map plugins"
    assert {*tested.split(), *elsewhere.split()} == set(EvalConfig.model_fields)
    data = build(DataConfig, DATA["permutation"], "x")
    found = {
        c.split
        for split in ("test", "validation")
        for c in conditions_of(evaluation(split=split), CheckpointInfo(data))
    }
    assert found == {"test", "validation"}
    assert for_checkpoint(str(tmp_path), evaluation(set=DATA["composition"])).data.task.kind == "composition"
    own = tmp_path / "own.jsonl"
    lines = ({"code": f"def f(x):\n    return x + {n}", "input": "1"} for n in range(60))
    own.write_text("".join(json.dumps(line) + "\n" for line in lines))
    task = {"kind": "programs", "path": str(own)}
    programs = build(EvalConfig, {"diagnostics": [{"kind": "programs"}], "set": {"task": task}}, "x")
    for config, split in ((programs, "all"), (programs.changed({"trained_on": task}), "test")):
        assert {c.split for c in conditions_of(config, for_checkpoint(str(tmp_path), config))} == {split}


@pytest.mark.slow
def test_batches_lengths_and_threads_are_as_set(tmp_path: Path) -> None:
    model, tokenizer = model_for(PERMUTATION, "symbols")
    batches: list[int] = []
    model.register_forward_pre_hook(lambda _, args, kwargs: batches.append(len(kwargs["input_ids"])), with_kwargs=True)
    evaluate(model, tokenizer, CheckpointInfo(PERMUTATION), evaluation(batch_size=3), tmp_path / "batches", "gru")
    assert {3, 1} <= set(batches)  # how the model carries its state was tried on two rows
    assert max(batches) == 3
    evaluate(model, tokenizer, CheckpointInfo(PERMUTATION), evaluation(max_new_tokens=5), tmp_path / "short", "gru")
    (path,) = (tmp_path / "short" / "records").glob("*.parquet")
    assert read_records(path)["truncated"].all()
    before = torch.get_num_threads()
    try:
        short = evaluation(threads=before + 1, max_new_tokens=1)  # nothing to compute
        evaluate(model, tokenizer, CheckpointInfo(PERMUTATION), short, tmp_path / "threads", "gru")
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_a_model_computes_in_the_precision_that_is_asked_for(tmp_path: Path) -> None:
    model, tokenizer = model_for(PERMUTATION, "symbols")
    checkpoint, out = str(tmp_path / "run"), tmp_path / "half"
    model.save_pretrained(checkpoint)
    tokenizer.save(Path(checkpoint))
    half = evaluation(precision="bf16", max_new_tokens=200)
    evaluate(*load_evaluated(checkpoint, half), CheckpointInfo(PERMUTATION), half, out, "gru")
    assert read_json(out / "reading.json", "")["precision"] == "bfloat16"
    usual = evaluation(max_new_tokens=200)
    assert load_evaluated(checkpoint, usual)[0].dtype == torch.float32
    with pytest.raises(UserError, match="another evaluation"):
        evaluate(*load_evaluated(checkpoint, usual), CheckpointInfo(PERMUTATION), usual, out, "gru")
    with pytest.raises(ConfigError, match=r"precision .* with a backend"):
        evaluation(precision="bf16", backend={"url": "http://localhost:1", "model": "x"})


PERMUTATIONS, STRINGS, OWN = DATA.values()


@pytest.mark.parametrize(
    ("data", "diagnostic", "settings", "says"),
    [
        (STRINGS, {"kind": "composition", "depths": [], "forms": ["nested"]}, {}, "forms does nothing without depths"),
        (
            OWN,
            {"kind": "programs", "answer_only": [True], "reveals": [{"spacing": 2}]},
            {},
            "reveals does nothing with answer_only",
        ),
        (OWN, {"kind": "programs"}, {"split": "validation"}, "split validation does nothing"),
        (PERMUTATIONS, {"kind": "permutation"}, {"trained_on": PROGRAMS}, "trained_on .* does nothing"),
        (PERMUTATIONS, {"kind": "permutation", "forcing": ["teacher_forced"]}, {"max_new_tokens": 9}, "9 does nothing"),
        ({**PERMUTATIONS, "context": False}, {"kind": "permutation"}, {}, r"data\.context=true"),
        (STRINGS, {"kind": "permutation"}, {}, r"needs data\.task\.kind permutation"),
        ({**PERMUTATIONS, "context": False}, {"kind": "two_by_two"}, {}, "needs the program in the context"),
        (PERMUTATIONS, {"kind": "two_by_two", "forcing": ["free"]}, {}, "leave forcing out"),
        (PERMUTATIONS, {"kind": "two_by_to"}, {}, "did you mean 'two_by_two'"),
        (STRINGS, {"kind": "programs", "rewrites": ["none", "all"]}, {}, "remove `rewrites`"),
        (OWN, {"kind": "programs", "rewrites": ["non"]}, {}, r"diagnostics\.0\.rewrites\.0: unknown rewrite 'non'"),
        ({**OWN, "format": "repl"}, {"kind": "programs"}, {}, "cannot ask for the answer alone"),
    ],
)
def test_what_would_do_nothing_or_cannot_be_done_is_refused(
    data: dict[str, Any], diagnostic: dict[str, Any], settings: dict[str, Any], says: str, tmp_path: Path
) -> None:
    def asked() -> None:
        config = build(EvalConfig, {"diagnostics": [diagnostic], "set": data, **settings}, "x")
        conditions_of(config, for_checkpoint(str(tmp_path), config))

    with pytest.raises(ConfigError, match=says):
        asked()
