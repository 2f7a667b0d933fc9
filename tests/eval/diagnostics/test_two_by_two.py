"""Four cells over the same programs: what each says, which failure it shows, and that a report draws them."""

from pathlib import Path

from remedy.eval.conditions import CheckpointInfo
from remedy.eval.config import EvalConfig
from remedy.eval.diagnostics.two_by_two import CELLS, cells_table
from remedy.eval.evaluate import evaluate
from remedy.eval.report.page import compose, report
from remedy.eval.tables.groups import grouped
from remedy.settings import build
from tests.eval.made_records import made, together
from tests.eval.test_evaluate import PERMUTATION, model_for

CONFIG = build(EvalConfig, {"diagnostics": [{"kind": "two_by_two", "examples": 3}]}, "x")


def test_all_cells_have_the_same_programs_and_a_report_draws_them(tmp_path: Path) -> None:
    model, tokenizer = model_for(PERMUTATION, "symbols")
    evaluate(model, tokenizer, CheckpointInfo(PERMUTATION), CONFIG, tmp_path / "run", "gru")
    sections = {section.title: section for section in compose([tmp_path / "run"]).sections}
    head, *rows = sections["Who writes actions, who writes states: in numbers"].rows or [[]]
    found = {(row[1], row[2]): dict(zip(head, row)) for row in rows}
    assert set(found) == set(CELLS.values())
    assert found["fed", "model"]["Actions right"] == found["model", "fed"]["States right"] == ""
    assert found["fed", "model"]["States right"]
    assert found["model", "fed"]["Actions right"]
    assert found["model", "fed"]["Answer right"] == "" != found["model", "model"]["Answer right"]
    page = report([tmp_path / "run"], tmp_path / "report")
    assert "Who writes actions, who writes states: right per frame" in page.read_text()
    assert any((tmp_path / "report" / "figures").glob("who-writes*"))


def test_a_wrong_action_and_a_lost_state_are_told_apart() -> None:
    free = made([False] * 4, diagnostic="two_by_two", first_error_role=["event", "action", "state", ""])
    conditions, records = together(free)
    head, row = cells_table(grouped(conditions, records))
    said = dict(zip(head, row))
    assert said["First error: wrong action"] == "50 %\n15 to 85 %\n2 of 4 traces"
    assert said["First error: lost state"].endswith("1 of 4 traces")
