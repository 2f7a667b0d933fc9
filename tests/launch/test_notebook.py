"""What a notebook adds: an example to look at, data by the row, a report as tables; and the quickstart, cell by cell."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from remedy import DataConfig, UserError, dataset, report
from remedy.settings import build

ROOT = Path(__file__).resolve().parents[2]
DATA = build(DataConfig, {"task": {"kind": "permutation", "n": 3, "length": 2}, "format": "repl"}, "test")


def test_streamed_rows_are_those_of_the_dataset() -> None:
    rows = dataset(DATA, 5).to_list()
    assert list(islice(dataset(DATA, 10**9, streaming=True), 5)) == rows
    assert rows[0]["trace"].startswith(">>> print('a', a)")
    assert rows[3]["index"] == 3


def test_a_report_takes_a_list(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="give a list of folders"):
        report(str(tmp_path), tmp_path / "out")


@pytest.mark.slow
def test_the_quickstart_runs_cell_by_cell() -> None:
    cells = json.loads((ROOT / "examples" / "quickstart.ipynb").read_text())["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert not cell["outputs"]
            exec("".join(cell["source"]).replace("600, 200", "2, 3"), names)
    found = names["found"]
    assert set(found.to_pandas()["run"]) == {"attention", "gru"}
    assert len(found.verdicts()) == 3
    assert found.figures()
    assert "<table" in found._repr_html_()
