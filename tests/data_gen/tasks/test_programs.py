"""Real programs: from files and lines, each in one split, with its outcome where it cannot be traced."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example, examples
from remedy.data_gen.execution import pool
from remedy.data_gen.execution.pool import environment, trace_all
from remedy.data_gen.execution.program import Program, ProgramError, Trace
from remedy.data_gen.execution.sandbox import TracerConfig
from remedy.data_gen.roles import spans_text
from remedy.data_gen.splits import SPLITS
from remedy.data_gen.tasks import trace_cache
from remedy.data_gen.tasks.programs import ProgramsTask
from remedy.eval.diagnostics.condition import extent
from remedy.launch.train import given_programs
from remedy.settings import ConfigError, build
from remedy.train.config import RunConfig

GOOD = "def f(x):\n    return x * {n}"
BAD = {
    "syntax": "def f(x:\n    return",
    "raised": "raise ValueError('at import')\ndef f(x):\n    return x",
    "time": "def f(x):\n    import time\n    time.sleep(60)",
    "frames": "def f(x):\n    while True:\n        x = 1",
    "repr": "class A:\n    def __repr__(self):\n        raise SystemExit\ndef f(x):\n    a = A()\n    return x",
    "killed": "def f(x):\n    import os\n    os._exit(1)",
    "process": "def f(x):\n    import os\n    while True:\n        os.fork()",
}


def config(path: Path) -> DataConfig:
    return DataConfig.model_validate(
        {"task": {"kind": "programs", "path": str(path), "tracer": {"timeout_seconds": 1, "max_frames": 500}}}
    )


def everything(path: Path) -> list[Example]:
    """The programs of all splits, in order of split and index."""
    data = config(path)
    return [e for split in SPLITS for e in examples(data, split, range(data.task.count(split) or 0))]


def test_every_program_is_in_one_split_and_failures_are_marked(tmp_path: Path) -> None:
    path = tmp_path / "programs.jsonl"
    codes = [GOOD.format(n=n) for n in range(12)] + list(BAD.values())
    path.write_text("".join(json.dumps({"code": code, "input": "3"}) + "\n" for code in codes))
    outcomes = [example.outcome for example in everything(path)]
    assert sorted(outcomes) == sorted(["ok"] * 12 + list(BAD))


EVERYWHERE = {
    "the clock": ("time", "time.time()"),
    "its seconds": ("time", "int(time.time())"),
    "the day": ("datetime", "datetime.date.today()"),
    "the year": ("datetime", "datetime.datetime.now().year"),
    "the hour": ("time", "time.localtime().tm_hour"),
    "a date in text": ("time", "time.strftime('%Y')"),
    "an address as a number": ("os", "id([])"),
    "an address of a constant": ("os", "id('a b')"),
    "an address as a hash": ("os", "hash(object())"),
    "the order of a set of objects": ("os", "[a.n for a in {*map(A, range(9))}]"),
    "the order of addresses": ("os", "[a.n for a in sorted(map(A, range(12)), key=id)]"),
    "numbers of a generator without a seed": ("random", "random.Random().random()"),
    "a new seed": ("random", "(random.seed(), random.random())"),
    "bytes of the system": ("os", "os.urandom(4)"),
    "bytes of the system's file": ("os", "open('/dev/urandom', 'rb').read(4)"),
    "secrets": ("secrets", "secrets.token_hex(4)"),
    "an identifier": ("uuid", "uuid.uuid1()"),
    "a random identifier": ("uuid", "uuid.uuid4()"),
    "numpy without a seed": ("numpy", "numpy.random.rand(3)"),
    "numpy's generator": ("numpy", "numpy.random.default_rng().random()"),
    "the name of a file": ("tempfile", "tempfile.mktemp()"),
    "which way it goes": ("time", "[0 for _ in range(time.perf_counter_ns() % 9973)]"),
}
SANDBOXED = {
    "its process": ("os", "os.getpid()"),
    "its parent": ("os", "os.getppid()"),
    "its folder": ("os", "os.getcwd()"),
    "its temporary folder": ("tempfile", "tempfile.gettempdir()"),
    "its thread": ("threading", "threading.get_ident()"),
    "an address of Python's own": ("os", "id(None)"),
    "an address of Python's own as a hash": ("os", "hash(None)"),
}
"""What is of one process, and not of one run in it."""
STABLE = {
    "random numbers": ("random", "random.random(), random.sample(range(99), 5)"),
    "numpy with a seed": ("numpy", "numpy.random.seed(3), numpy.random.rand()"),
    "sets and hashes of text": ("os", "hash('x') % 7, list({'a', 'b', 'c'}), object()"),
    "values with addresses": ("threading, hmac", "threading.RLock(), hmac.new(b'k', b'm', 'sha1'), A(1)"),
    "given times": (
        "time, datetime",
        "time.gmtime(0), time.strftime('%Y', time.localtime(9)), datetime.date(2000, 1, 1)",
    ),
}


@pytest.mark.parametrize("isolation", ["auto", "trusted"])
def test_what_another_run_would_show_otherwise_is_an_outcome_of_its_own(isolation: str) -> None:
    room = {"memory_megabytes": 4096} if isolation == "auto" else {}  # for numpy
    config = TracerConfig.model_validate({"isolation": isolation, **room})
    cases = EVERYWHERE | STABLE | (SANDBOXED if isolation == "auto" else {})
    code = "import {}\nclass A:\n    def __init__(self, n):\n        self.n = n\ndef f(x):\n    y = {}\n    return y"
    programs = [Program.from_call(code.format(*case), "3", what) for what, case in cases.items()]
    alike = (
        {"its parent"} if environment(config).isolation.startswith("bubblewrap") else set()
    )  # process 1 of every namespace
    for what, found in zip(cases, trace_all(programs, config)):
        if what in STABLE or what in alike:
            assert isinstance(found, Trace), found
            continue
        assert isinstance(found, ProgramError), what
        assert found.kind == "unstable"
        assert str(found).startswith(
            (f"{what}: another run of it had another trace, from frame ", f"{what}: reads the clock, ")
        )


def test_values_whose_repr_raises_are_counted_or_refused(tmp_path: Path) -> None:
    point = "class P:\n    def __init__(self, x):\n        self.x = x\n    def __repr__(self):\n        return f'P({self.x})'\n"
    path = tmp_path / "points.jsonl"
    codes = [point + "def f(x):\n    return P(x)", "def f(x):\n    return x"]
    path.write_text("".join(json.dumps({"code": code, "input": "3"}) + "\n" for code in codes))
    for unreadable, outcomes, counts in (("placeholder", ["ok", "ok"], [2, 0]), ("refuse", ["repr", "ok"], [0, 0])):
        task = {"kind": "programs", "path": str(path), "tracer": {"unreadable": unreadable}}
        found = examples(DataConfig.model_validate({"task": task}), "all", [0, 1])
        assert [example.outcome for example in found] == outcomes
        assert [example.slices["unreadable"] for example in found] == counts


@pytest.mark.parametrize(("objects", "shown"), [("repr", "<traced_program.P object>"), ("attributes", "<P x=3>")])
def test_sandboxed_objects_are_shown_as_the_tracer_is_told(tmp_path: Path, objects: str, shown: str) -> None:
    (tmp_path / "p.jsonl").write_text(
        json.dumps({"code": "class P:\n    x = 3\ndef f(x):\n    p = P()\n    p.x = x\n    return p", "input": "3"})
    )
    task = {"kind": "programs", "path": str(tmp_path / "p.jsonl"), "tracer": {"objects": objects}}
    [found] = examples(DataConfig.model_validate({"task": task}), "all", [0])
    assert shown in spans_text(found.spans)


LINES = [{"id": f"{n}/{x}", "code": GOOD.format(n=n), "input": str(x)} for x in range(20) for n in range(3)]


def lines(path: Path, rows: Sequence[Mapping[str, object]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def counts(task: ProgramsTask) -> list[int]:
    return [task.count(split) for split in SPLITS]


def test_splits_are_given_or_dealt_out_by_function_or_program(tmp_path: Path) -> None:
    path = lines(tmp_path / "mine.jsonl", LINES)
    by_function = ProgramsTask(path=path, split_by="function")
    assert counts(by_function) == [20, 20, 20]
    by_program = ProgramsTask(path=path, split_by="program")
    assert counts(by_program) == [48, 6, 6]
    found = [{one.slices["source"] for one in by_program.draw(s, range(by_program.count(s)), 0, False)} for s in SPLITS]
    assert set.union(*found) == {line["id"] for line in LINES}
    assert by_program.describe_splits() == (
        f"{path}: 60 programs of 3 functions: train 48, validation 6, test 6 (split_by program)"
    )
    parts = {"train": 0.5, "validation": 0.5, "test": 0}
    assert counts(ProgramsTask.model_validate({"path": path, "split_by": "program", "shares": parts})) == [30, 30, 0]
    with pytest.raises(ConfigError, match=r"task\.shares: shares come to 1\.2, not 1"):
        build(DataConfig, {"task": {"kind": "programs", "path": path, "shares": {"train": 1}}})
    with pytest.raises(
        ConfigError, match=r"split_by program finds 1 in .*, too few to deal out to .*: give more, another"
    ):
        ProgramsTask(path=lines(tmp_path / "one.jsonl", LINES[:1]), split_by="program").count("train")
    with pytest.raises(
        ConfigError, match=r"split_by function finds 2 in .*, too few to deal out to train, validation, test"
    ):
        ProgramsTask(path=lines(tmp_path / "two.jsonl", LINES[:2]), split_by="function").count("train")

    given = [{**line, "split": ("train", "test")[n % 2]} for n, line in enumerate(LINES)]
    task = ProgramsTask(path=lines(tmp_path / "given.jsonl", given))
    assert counts(task) == [30, 0, 30]
    with pytest.raises(ConfigError, match=r'the validation split, which has 0.*give lines `"split": "validation"`'):
        task.require("validation", 1, "train.evaluate_every")
    with pytest.raises(ConfigError, match=r"split_by and shares do nothing, since .* gives splits: remove them"):
        ProgramsTask(path=task.path, split_by="program").count("train")
    for wrong, says in (({"split": "dev"}, "split 'dev' is none"), ({}, "2/0 has no split, and others have")):
        with pytest.raises(ConfigError, match=says):
            ProgramsTask(path=lines(tmp_path / "wrong.jsonl", [*given[:2], {**LINES[2], **wrong}])).count("train")


def test_a_split_without_programs_is_refused_before_anything_is_traced(tmp_path: Path) -> None:
    path = lines(tmp_path / "mine.jsonl", LINES)
    run: dict[str, Any] = {"data": {"task": {"kind": "programs", "path": path}}, "train": {"evaluate_every": 5}}
    with pytest.raises(ConfigError, match=r"train\.evaluate_every asks for .*write another `split_by` or other"):
        given_programs(build(RunConfig, run))
    run["data"]["task"]["split_by"] = "program"
    assert given_programs(build(RunConfig, run)) == [ProgramsTask(path=path, split_by="program").describe_splits()]
    with pytest.raises(ConfigError, match=r"split by program .* in training and by hash .* here"):
        extent("programs", ProgramsTask(path=path), "test", ProgramsTask(path=path, split_by="program"))


def test_a_program_is_run_once_for_each_tracer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def trace_all(programs: Sequence[Program], *rest: Any) -> Iterator[Trace | ProgramError]:
        ran.extend(program.name for program in programs)
        return pool.trace_all(programs, *rest)

    monkeypatch.setattr(trace_cache, "trace_all", trace_all)
    monkeypatch.setenv(trace_cache.VARIABLE, str(tmp_path / "kept"))
    codes = {"good": GOOD.format(n=2), "raised": BAD["raised"], "time": BAD["time"]}
    programs = [Program.from_call(code, "3", name) for name, code in codes.items()]
    tracer = TracerConfig(timeout_seconds=1, max_frames=500)
    first = list(trace_cache.traced_once(programs, tracer))
    again = list(trace_cache.traced_once(programs[::-1], tracer))[::-1]
    assert ran == [*codes, "time"]  # how long a program takes is the machine's
    assert first[0] == again[0] == next(pool.trace_all(programs[:1], tracer))
    assert [(one.kind, str(one)) for one in (first[1], again[1]) if isinstance(one, ProgramError)] == [
        ("raised", "raised: raised ValueError while loading: at import")
    ] * 2
    list(trace_cache.traced_once(programs[:1], tracer.changed({"max_frames": 400})))
    [file] = [path for path in (tmp_path / "kept").iterdir() if path.stat().st_size][:1]
    file.write_bytes(b"no database")
    assert list(trace_cache.traced_once(programs[:1], tracer)) == first[:1]


def test_what_no_file_of_text_can_hold_is_written_as_an_escape(tmp_path: Path) -> None:
    path = tmp_path / "halves.jsonl"
    lines = [
        r'{"code": "def f(x):\n    return \"\ud800\" + x", "input": "\"\udfff\"", "id": "a\ud800"}',
        r'{"code": "class A:\n    def __repr__(self): return chr(0xd800)\ndef f(x):\n    return A()", "input": "1", "id": "b"}',
        r'{"code": "raise ValueError(chr(0xd800))\ndef f(x):\n    return x", "input": "1", "id": "c"}',
        r'{"code": "def f(x):\r    return x", "input": "1", "id": "d"}',
    ]
    path.write_text("\n".join(lines))
    found = {example.slices["source"]: example for example in everything(path)}
    assert {name: example.outcome for name, example in found.items()} == {
        "a\\ud800": "ok",
        "b": "ok",
        "c": "raised",
        "d": "ok",
    }
    assert found["a\\ud800"].answer == r"'\ud800\udfff'"
    assert found["b"].answer == r"\ud800"
    for example in found.values():  # as a shard would
        (example.program + example.answer + spans_text(example.spans)).encode()


@pytest.mark.parametrize(
    ("code", "given", "says"),
    [
        ("def f(x):\n    return x\n", "1) + f(2", "is not the arguments of a call, on one line"),
        ("def g(x):\n    return x\n", "1", "defines no function f, which the input gives arguments to"),
        ("def main():  # << START_OF_TRACE\n    return 1\n", "1", "marks an entry point, which takes no arguments"),
    ],
)
def test_an_input_is_the_arguments_of_a_files_function(tmp_path: Path, code: str, given: str, says: str) -> None:
    (tmp_path / "one.py").write_text(code)
    with pytest.raises(ConfigError, match=says):
        ProgramsTask(path=str(tmp_path / "one.py"), input=given).count("all")
    with pytest.raises(ConfigError, match="input is of a single program"):
        build(ProgramsTask, {"path": lines(tmp_path / "two.jsonl", LINES[:2]), "input": given})
