"""The runs of a report: what training took, and validation."""

from pathlib import Path
from typing import Any

import pytest

from remedy.checksums import DamagedFile, read_json, write_json
from remedy.eval.records.folder import REQUEST, read_request
from remedy.eval.report.fairness import has_no_seed
from remedy.eval.report.page import compose
from remedy.eval.report.runs import runs_table
from remedy.eval.report.wording import evidence_row
from remedy.eval.tables.sections import Section
from tests.eval.made_records import made, write_evaluation

TRAINING: dict[str, Any] = {
    "steps": 800,
    "examples": 25_600,
    "tokens": 1_200_000,
    "flops": 3.4e12,
    "learning_rate": 0.004,
    "seed": 0,
    "data_seed": 0,
    "kept_step": 800,
    "stopped_early": False,
    "validation": None,
    "curve": [],
    "computed": None,
    "chosen": {},
}
LABELS = {"length": 4, "horizon": 4}


def evaluation(folder: Path, run: str, right: bool = True, variant: str = "", **training: Any) -> Path:
    rows = made([right] * 100, run=run, labels=LABELS)
    return write_evaluation(folder / run, rows, variant=variant, training={**TRAINING, **training})


def section(folders: list[Path], title: str) -> Section:
    return next(one for one in compose(folders, []).sections if one.title == title)


def test_a_verdict_between_unequal_arms_says_so_and_the_table_shows_what_training_took(tmp_path: Path) -> None:
    folders = [
        evaluation(tmp_path, f"{name}{seed}", right, name, steps=steps, kept_step=400, tokens=1000 + seed, seed=seed)
        for name, right, steps in (("a", False, 800), ("b", True, 1600), ("c", True, 800))
        for seed in range(6)
    ]
    assert evidence_row(compose(folders[:12]).verdicts[0])[-1] == "steps 1,600 against 800"
    assert evidence_row(compose(folders[:6] + folders[12:]).verdicts[0])[-1] == ""
    found = section(folders[:12], "Recipes")
    assert found.rows == [["Recipe", "Steps"], ["a", "800"], ["b", "1,600"]]
    said = "model gru; layers 1; width 2; parameters 7; tokenizer chars; data permutation; examples 25,600; "
    assert found.note.startswith(f"All recipes: {said}tokens 1,000 to 1,005; flops 3.4e+12; learning rate 0.004; ")
    assert "best kept of step 400; seed 0 to 5; data seed 0." in found.note


def row_of(request: dict[str, Any]) -> dict[str, str]:
    (head, row), _ = runs_table([request])
    return dict(zip(head, row, strict=True))


def test_a_model_as_it_is_is_said_to_be_not_trained(tmp_path: Path) -> None:
    request = read_request(evaluation(tmp_path, "run", steps=0, examples=0, tokens=0, flops=0.0, kept_step=0))
    found = row_of(request)
    assert found["Steps"] == "0, not trained"
    assert "Learning rate" not in found
    assert not has_no_seed(request)  # one of our decoders: random weights, of a seed
    request["checkpoint"]["mixers"] = {}
    assert has_no_seed(request)


def test_runs_that_validated_are_drawn(tmp_path: Path) -> None:
    curve = [[400, 2.0, 0.0], [800, 1.0, 0.5]]
    folders = [evaluation(tmp_path, "a", curve=curve), evaluation(tmp_path, "b", curve=curve, kept_step=400)]
    folders.append(evaluation(tmp_path, "c"))
    found = section(folders, "Validation while training")
    drawn = found.draw and found.draw()
    assert drawn is not None
    assert [[list(line.get_ydata()) for line in panel.get_lines()] for panel in drawn.axes] == [
        [[2.0, 1.0]] * 2,
        [[0.0, 0.5]] * 2,
    ]


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("conditions", None, "missing key 'conditions'"),
        ("conditions", [], "key 'conditions': "),
        ("run", 5, "key 'run': Input should be a valid string, got 5"),
        ("training.steps", "5", "key 'training.steps': Input should be a valid integer, got '5'"),
        ("data.memory", {"frames": "x"}, "key 'data.memory.frames': "),
        ("checkpoint.tokenizer", {}, "missing key 'checkpoint.tokenizer.kind'"),
    ],
)
def test_a_request_of_another_form_is_named_by_its_key(tmp_path: Path, key: str, value: Any, says: str) -> None:
    folder = evaluation(tmp_path, "run")
    request = read_json(folder / REQUEST, "")
    *outer, last = key.split(".")
    section = request[outer[0]] if outer else request
    section |= {last: value}
    if value is None:
        del section[last]
    write_json(folder / REQUEST, request)
    with pytest.raises(DamagedFile) as refused:
        read_request(folder)
    assert str(refused.value).startswith(f"{folder / REQUEST}: is damaged ({says}")
    assert len(str(refused.value).splitlines()) == 1
