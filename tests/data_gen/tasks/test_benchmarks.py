"""The published programs: the same executions, and every published result reproduced by running them."""

import json
import math
from pathlib import Path

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.execution.pool import trace_all
from remedy.data_gen.execution.program import ProgramError, Trace
from remedy.data_gen.execution.sandbox import TracerConfig
from remedy.data_gen.tasks.assertions import executions
from remedy.data_gen.tasks.program_sources import read_cases
from remedy.data_gen.tasks.programs import ProgramsTask, load_cases
from remedy.data_gen.traces.values import same_value
from remedy.settings import ConfigError


def test_humaneval_has_the_same_723_executions(shared: Path) -> None:
    cases = load_cases(ProgramsTask(benchmark="humaneval", path=str(shared / "humaneval.jsonl")))
    rows = [json.loads(line) for line in (shared / "humaneval_cases.jsonl").read_text().splitlines()]
    assert len(cases) == len(rows) == 723
    for case, row in zip(cases, rows):
        assert case.id == f"{row['task_id']}/{row['tc']}"
        assert case.program.code.endswith(f"    return {row['entry_point']}({row['input']})\n")
        assert case.expected is not None
        folded = row["output"] == "(3 + 5 + 7, 3 * 5 * 7)"  # the one that is no literal
        assert case.expected == ("(15, 105)" if folded else row["output"])


@pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.weekly)])
@pytest.mark.parametrize(("benchmark", "count", "too_long"), [("cruxeval", 800, 0), ("humaneval", 723, 3)])
def test_published_results_are_reproduced(shared: Path, benchmark: str, count: int, too_long: int, every: int) -> None:
    source = {"benchmark": benchmark, "path": str(shared / f"{benchmark}.jsonl")}
    cases = load_cases(ProgramsTask.model_validate(source))
    assert len(cases) == count
    cases = cases[::every]
    programs = [case.program for case in cases]
    unfinished = 0
    for depth in (None, 0):
        for case, outcome in zip(cases, trace_all(programs, TracerConfig(timeout_seconds=60), workers=2, depth=depth)):
            if isinstance(outcome, ProgramError):
                assert depth is None
                assert outcome.kind in ("frames", "output"), outcome
                unfinished += 1
                continue
            assert isinstance(outcome, Trace)
            assert outcome.result is not None
            assert case.expected is not None
            assert same_value(outcome.result.text, case.expected), case.id
    assert unfinished == too_long if every == 1 else unfinished <= too_long


def test_the_first_five_assertions_of_three_forms_are_executions() -> None:
    test = """
METADATA = {}
def check(candidate):
    assert candidate(1, [2,
        3]) == [4,
        5], "message"
    assert abs(candidate(1.0) - 2) < 1
    x = candidate(2)
    assert candidate("a  b")
    assert not candidate('")')
    assert candidate(1) == 2 * 3 - 1
    if True:
        assert candidate(9)
    assert candidate(2) == 3
    assert candidate(3) == 4
"""
    assert executions(test) == [("1, [2, 3]", "[4, 5]"), ('"a  b"', "True"), ("'\")'", "False"), ("1", "5"), ("2", "3")]
    with pytest.raises(ValueError, match="no single function"):
        executions("x = 1")


def test_what_cannot_be_loaded_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cruxeval cannot be read from the Hugging Face hub .* its `path`"):
        load_cases(ProgramsTask(benchmark="cruxeval"))
    for text, says in (
        ("{", r"x\.jsonl:1: not a JSON object"),
        ("[" * 50_000, r"x\.jsonl:1: not a JSON object"),
        ('{"code": "def f(): pass"}', r"x\.jsonl:1: has no key 'input'"),
        ('{"code": 3, "input": "1"}', r"x\.jsonl:1: .* code is to be text, not 3"),
        ("\n", "holds no program"),
    ):
        path = tmp_path / "x.jsonl"
        path.write_text(text)
        read_cases.cache_clear()
        with pytest.raises(ConfigError, match=says):
            load_cases(ProgramsTask(path=str(path)))


def test_a_result_other_than_the_stated_one_is_a_mismatch(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    rows = [{"code": "def f(x):\n    return x", "input": "1", "output": out} for out in ("1", "2")]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = DataConfig.model_validate({"task": {"kind": "programs", "path": str(path)}})
    assert [example.outcome for example in examples(data, "all", [0, 1])] == ["ok", "mismatch"]


ROWS = {
    "mbpp": [
        {
            "task_id": 12,
            "code": "import math\r\ndef helper(n):\r\n\treturn math.floor(n)\r\ndef add(a, b=0):\r\n\treturn helper(a) + b ",
            "test_setup_code": "",
            "test_list": ["assert add(1.5, 2)==(3) ", "assert add(\n4) == 4", "x = 1"],
            "challenge_test_list": [
                "assert add(1) == 1.0",
                "assert add(1, # one\n 2) == 3",
                "assert add(len('''a\n b''')) == 4",
            ],
        },
        {
            "task_id": 601,
            "code": "def up(s):\n    return sep.join(s)",
            "test_imports": ["sep = '-'"],
            "test_list": ["assert up('ab') == 'a-b'"],
        },
    ],
    "livecodebench": [
        {
            "id": "sample_0",
            "code": "def countOdd(a):\n    return len([x for x in a if x % 2])",
            "input": "countOdd(a = [1, 2, 3])",
            "output": "2",
        }
    ],
}
FOUND = {
    "mbpp": [
        ("mbpp/12/0", "add(1.5, 2)", "3", "test"),
        ("mbpp/12/1", "add( 4)", "4", "test"),
        ("mbpp/12/2", "add(1)", "1.0", "test"),
        ("mbpp/12/3", "add(1, 2)", "3", "test"),
        ("mbpp/12/4", "add(len('a\\n b'))", "4", "test"),
        ("mbpp/601/0", "up('ab')", "'a-b'", "train"),
    ],
    "livecodebench": [("livecodebench/sample_0", "countOdd(a = [1, 2, 3])", "2", None)],
}


@pytest.mark.parametrize("benchmark", ROWS)
def test_rows_of_other_benchmarks_are_calls_with_known_results(benchmark: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS[benchmark]))
    cases = read_cases(benchmark, str(path))
    assert [(case.id, case.expected, case.split) for case in cases] == [
        (name, *rest) for name, _, *rest in FOUND[benchmark]
    ]
    for case, (_, call, result, _) in zip(cases, FOUND[benchmark]):
        assert case.program.code.endswith(f"    return {call}\n")
        [traced] = trace_all([case.program], TracerConfig())
        assert isinstance(traced, Trace)
        assert traced.result is not None
        assert same_value(traced.result.text, result)


@pytest.mark.parametrize(
    ("benchmark", "change", "message"),
    [
        ("livecodebench", {"input": "3"}, "input '3' is no call"),
        ("mbpp", {"code": None}, "expected str instance, NoneType found"),
        ("mbpp", {"test_list": "assert add(1) == 1"}, "a list of texts is to be given, not 'assert add"),
        ("mbpp", {"test_list": [f"assert add(1) == {'-' * 5000}1"]}, "recursion"),
        ("mbpp", {"task_id": math.inf}, "infinity"),
    ],
)
def test_a_row_that_is_none_is_refused_by_its_place(
    benchmark: str, change: dict[str, object], message: str, tmp_path: Path
) -> None:
    (tmp_path / "row.jsonl").write_text(json.dumps({**ROWS[benchmark][0], **change}))
    with pytest.raises(ConfigError, match=rf"row\.jsonl:1: not a line of such programs: .*{message}"):
        read_cases(benchmark, str(tmp_path / "row.jsonl"))
