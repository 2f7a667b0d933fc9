"""A model that was trained on states and values alone: what it was taught is measured after true tokens, and the rest is said."""

import json
import logging
from collections import defaultdict
from pathlib import Path

import pandas as pd
import pytest
import torch

from remedy.data_gen.roles import Role
from remedy.eval.config import EvalConfig
from remedy.eval.evaluate import evaluate_checkpoint
from remedy.eval.report.reading import read_evaluations
from remedy.models.encoding import encoded_examples
from remedy.models.loading import load_checkpoint
from remedy.settings import build
from remedy.train.config import RunConfig
from remedy.train.run import train
from tests.train.launching import CONFIG

EXAMPLES = 8
DATA = {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": [1, 3]}, "format": "cwm_numbers"}
RUN = {
    **CONFIG,
    "data": DATA,
    "tokenizer": {"kind": "chars"},
    "model": {"mixers": ["gru"], "num_hidden_layers": 1, "hidden_size": 48},
    "train": {
        "loss_roles": ["state", "value"],
        "max_steps": 90,
        "batch_size": 16,
        "learning_rate": 1e-2,
        "threads": 1,
        "evaluate_every": 90,
        "validation_examples": EXAMPLES,
    },
}


def test_a_model_of_states_alone_has_its_rate_and_what_it_lacks_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    run = build(RunConfig, {**RUN, "output": str(tmp_path / "run")}, "run")
    output = train(run)
    printed = capsys.readouterr().out
    forcing = ["teacher_forced", "free"]
    asked = {"diagnostics": [{"kind": "programs", "forcing": forcing, "answer_only": [False], "examples": EXAMPLES}]}
    config = build(EvalConfig, {**asked, "split": "validation", "max_new_tokens": 40}, "x")
    with caplog.at_level(logging.WARNING):
        summary = evaluate_checkpoint(output, config, tmp_path / "found", "run", progress=lambda _: None)
    lacks = "free leaves structure, action, event to the model, which train.loss_roles never supervised"
    warned = [record.message.partition(": ")[2] for record in caplog.records if lacks in record.message]
    assert warned == [f"{lacks}: forcing teacher_forced feeds them"]

    model, tokenizer = load_checkpoint(str(output))
    right: dict[tuple[int, int, int], bool] = defaultdict(lambda: True)
    separators = []
    for number, (_, truth) in enumerate(encoded_examples(run.data, tokenizer, "validation", range(EXAMPLES))):
        with torch.no_grad():
            likeliest = model(torch.tensor([list(truth.ids)])).logits[0].argmax(-1).tolist()
        for at in range(1, len(truth.ids)):
            hit = likeliest[at - 1] == truth.ids[at]
            if truth.roles[at] in (Role.STATE, Role.VALUE):
                right[truth.roles[at], number, truth.frames[at]] &= hit
            if truth.roles[at] == Role.STRUCTURE:
                separators.append(hit)
    assert not any(separators)
    rates = {}
    for role in (Role.STATE, Role.VALUE):
        hits = [hit for (of, *_), hit in right.items() if of == role]
        rates[role] = sum(hits) / len(hits)
    assert 0.05 < rates[Role.STATE] < 0.99
    assert f"right: state {rates[Role.STATE]:.1%}, value {rates[Role.VALUE]:.1%}" in printed

    after, freely = json.loads(summary.read_text())["conditions"]
    assert after["per_frame"]["states"]["mean"] == pytest.approx(rates[Role.STATE])
    assert after["per_frame"]["returns"]["mean"] == pytest.approx(rates[Role.VALUE])
    assert "actions" not in after["per_frame"]
    assert after["lacks"] == "not asked: structure, action, event, which train.loss_roles never supervised"
    assert freely["lacks"].startswith(lacks)
    read = read_evaluations([tmp_path / "found"])
    assert [one["lacks"] for one in read.conditions] == [after["lacks"], freely["lacks"]]
    records: pd.DataFrame = read.records[read.records["forcing"] == "teacher_forced"]
    assert set(records["first_error_role"]) <= {"state", "value", ""}
    assert not records[["out_of_structure", "out_of_event", "out_of_action"]].any(axis=None)
