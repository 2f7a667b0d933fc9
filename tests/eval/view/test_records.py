"""A record of an evaluation, opened: what its model wrote stands beside the truth, under the condition that is asked for."""

import math
from pathlib import Path

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import example
from remedy.data_gen.roles import ROLES, spans_text
from remedy.eval.conditions import CheckpointInfo
from remedy.eval.config import EvalConfig
from remedy.eval.evaluate import evaluate
from remedy.eval.records.folder import REQUEST
from remedy.eval.records.generations import read_generations
from remedy.eval.records.schema import read_records
from remedy.eval.view.records import record_of_folder, record_view
from remedy.settings import UserError, build
from tests.eval.test_evaluate import model_for

CWM = DataConfig.model_validate({"task": {"kind": "permutation", "n": 3, "length": 2}})
SYMBOLIC = DataConfig.model_validate({"task": {"kind": "permutation", "n": 3, "length": 2}, "format": "symbolic"})
FORCINGS = ["free", "action_forced", "teacher_forced"]


@pytest.fixture(scope="module", params=[CWM, SYMBOLIC], ids=["cwm", "symbolic"])
def evaluated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[DataConfig, Path]:
    folder: Path = tmp_path_factory.mktemp("evaluation")
    diagnostic = {"kind": "permutation", "lengths": [2], "forcing": FORCINGS, "examples": 2}
    settings = build(EvalConfig, {"diagnostics": [diagnostic], "max_new_tokens": 600}, "x")
    data: DataConfig = request.param
    model, tokenizer = model_for(data, "symbols" if data.format == "symbolic" else "chars")
    evaluate(model, tokenizer, CheckpointInfo(data), settings, folder, "gru")
    return data, folder


@pytest.mark.parametrize("forcing", FORCINGS)
def test_true_stands_beside_written(evaluated: tuple[DataConfig, Path], forcing: str) -> None:
    data, folder = evaluated
    view = record_of_folder(folder, 1, f"forcing={forcing}")
    (path,) = (folder / "records").glob(f"*forcing-{forcing}*")
    record = read_records(path).set_index("index").loc[1]
    generation = read_generations(folder / "generations" / path.name).loc[1]
    blocks = view.blocks
    separator = " " if data.format == "symbolic" else ""
    true = spans_text(example(data, "test", 1).spans, separator)
    assert separator.join(token.text for block in blocks for token in block.tokens) == true
    written = [token for block in blocks for token in block.written or ()]
    assert sorted(token.id for token in written if token.supervised) == sorted(generation["ids"])
    errors = [block.frame for block in blocks if block.first_error]
    assert errors == ([] if record["first_error_frame"] < 0 else [record["first_error_frame"]])
    right = {True: "yes", False: "no"}
    assert view.facts["right"] == (
        "undefined: states or values are fed" if forcing == "teacher_forced" else right[bool(record["right"])]
    )
    if record["first_error_frame"] >= 0:
        assert any(token.wrong for token in written) or any("not written" in block.note for block in blocks)
    for place in {*generation["places"]}:
        least = generation["logprobs"][generation["places"] == place].min()
        assert any(f" {math.exp(least):.3g}" in block.note for block in blocks)


def test_a_list_of_all_roles_is_shown_as_teacher_forcing(evaluated: tuple[DataConfig, Path]) -> None:
    (path,) = (evaluated[1] / "records").glob("*forcing-teacher_forced*")
    record = read_records(path).set_index("index", drop=False).loc[1].to_dict()
    written = read_generations(evaluated[1] / "generations" / path.name).loc[1].to_dict()
    assert record_view({**record, "forcing": "+".join(ROLES)}, written) == record_view(record, written)


def test_a_view_needs_neither_the_data_nor_the_tokenizer(evaluated: tuple[DataConfig, Path], tmp_path: Path) -> None:
    _, folder = evaluated
    for name in (REQUEST, "records", "generations"):
        (tmp_path / name).symlink_to(folder / name)
    assert record_of_folder(tmp_path, 1, "forcing=free") == record_of_folder(folder, 1, "forcing=free")


@pytest.mark.parametrize(
    ("index", "words", "says"),
    [
        (9, "forcing=free", "has 2 records"),
        (0, "forcing=fred", "did you mean 'forcing=free'"),
        (0, "2", "3 conditions; give words that only one of them has"),
    ],
)
def test_what_is_not_there_is_named(evaluated: tuple[DataConfig, Path], index: int, words: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        record_of_folder(evaluated[1], index, words)


def test_a_folder_without_an_evaluation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no evaluation"):
        record_of_folder(tmp_path, 0)


@pytest.mark.parametrize("text", ["[1]", "{", "{}"])
def test_a_damaged_request_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "evaluation.json").write_text(text)
    with pytest.raises(UserError, match=r"evaluation\.json: is damaged"):
        record_of_folder(tmp_path, 0)
