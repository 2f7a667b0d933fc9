"""Whatever a model writes gets a score that can be stored: a perfect answer is right under every condition, another value never."""

import json
import random
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example, examples
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.traces.string_encodings import ENCODINGS
from remedy.eval.decoding.cursor import Generated
from remedy.eval.decoding.forcings import TEACHER_FORCED, fed_roles, feeds_answers
from remedy.eval.records.generations import generation
from remedy.eval.scoring.common import DecodedExample
from remedy.eval.scoring.frames import score_frames
from remedy.eval.scoring.reading import generated_places
from remedy.models.tokenizer import Encoded
from remedy.settings import build
from tests.eval.constrained_runs import CHARACTERS
from tests.eval.scoring.truths import freely, generated, ids_of, start_of, true_runs

RESULTS = ["[]", "''", "'ab'", "['ab', 'cd']", "{'ab': 1}", "{'b', 'a'}", "1", "None"]
RESULTS += ["('é', \"it's\")", "'\\ud800'", "[b'ab']", "1e400"]
"""What the programs return."""
OUTPUTS = [
    *RESULTS,
    *["['a b', 'WRONG']", "['a b']", "'a b'", "['a', 'b']", "'0:a 1:b'", "{['a', 'b']: 1}", "True", "set()", "()"],
    *["[", "\x00", "f'{1}'", "__import__('os')", "<|end_of_text|>", "[[['", "nan"],
    *("'a   b'", "(" * 210, "9" * 300, "'\ud800'", "1 " * 20, "", f"{'1' * 400}+1j"),
]
"""What models answer."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "own.jsonl"
    rows = [{"code": f"def f(x):\n    y = {result}\n    return y", "input": "0"} for result in RESULTS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def data_of(path: Path, **changes: Any) -> DataConfig:
    return build(DataConfig, {"task": {"kind": "programs", "path": str(path)}, **changes}, "test")


def scored(data: DataConfig, example: Example, truth: Encoded, runs: list[Generated], forcing: Any) -> dict[str, Any]:
    """The score, which a file of records can hold, as a file of generations can hold what was written."""
    decoded = DecodedExample(example, truth, runs, fed_roles(forcing), data)
    score = score_frames(decoded, CHARACTERS)
    text = CHARACTERS.decode(decoded.written(runs))
    kept = generation(example.index, text, runs, generated_places(decoded, CHARACTERS), CHARACTERS, decoded.truth)
    for row in (score, kept):
        "".join(map(str, row.values())).encode()
    return dict(score)


def answer_positions(truth: Encoded) -> list[int]:
    """Where the last frame's value is."""
    values = [(frame, at) for at, (frame, role) in enumerate(zip(truth.frames, truth.roles)) if role == Role.VALUE]
    return [at for frame, at in values if frame == max(values)[0]]


def answering(truth: Encoded, answer: list[int], forcing: Any) -> list[Generated]:
    """The true runs, but for the answer; teacher-forced runs have one token for each true one."""
    value = answer_positions(truth)
    runs = []
    for run in true_runs(truth, forcing):
        a, b = run.start, run.stop
        if a <= value[0] < b:
            head, tail = truth.ids[a : value[0]], truth.ids[value[-1] + 1 : b]
            if fed_roles(forcing) == TEACHER_FORCED:
                answer = (answer + [CHARACTERS.pad_id] * len(value))[: len(value)]
            run = generated(a, b, [*head, *answer, *tail])
        runs.append(run)
    return runs


FORCINGS: list[Any] = [
    "free",
    "line_forced",
    "action_forced",
    "teacher_forced",
    ("context", "structure"),
    ("context", "structure", "state", "query"),
]
CONDITIONS = [
    ("cwm", True, "free", "plain"),
    *(
        pytest.param(("cwm", "repl")[place % 2], False, forcing, encoding, marks=pytest.mark.slow)
        for place, (forcing, encoding) in enumerate(zip(FORCINGS, cycle(ENCODINGS)))
    ),
    ("cwm", True, "free", "list"),
    ("cwm", True, "free", "indexed"),
]
"""Every forcing, and with them both formats and the encodings."""


def said(score: dict[str, Any], forcing: Any) -> bool:
    """Whether the answer is right; where what it is read from was fed, so that this is undefined, all values that were written."""
    if not feeds_answers(forcing):
        return bool(score["right"])
    assert score["right"] is None
    return bool(score["value_exact"] == 1)


@pytest.mark.parametrize(("form", "answer_only", "forcing", "encoding"), CONDITIONS)
def test_a_perfect_answer_is_right_and_another_value_never(
    programs: Path, encoding: str, form: str, answer_only: bool, forcing: Any
) -> None:
    data = data_of(programs, format=form, string_encoding=encoding, reveal={"answer_only": answer_only})
    found = examples(data, "all", range(len(RESULTS)))
    truths = [CHARACTERS.encode(example.spans) for example in found]
    values = [[truth.ids[at] for at in answer_positions(truth)] for truth in truths]
    written = [
        ids_of([json.dumps(output) if form == "cwm" else json.dumps(output)[1:-1]], CHARACTERS) for output in OUTPUTS
    ]
    for row, (example, truth) in enumerate(zip(found, truths)):
        score = scored(data, example, truth, true_runs(truth, forcing), forcing)
        assert (said(score, forcing), score["valid_format"], score["failure"]) == (True, True, ""), example.answer
        for other, value in enumerate(values):
            same = said(scored(data, example, truth, answering(truth, value, forcing), forcing), forcing)
            # Under `list` the empty string is written as the empty list is: no reader can tell them apart.
            assert same == (other == row or (encoding == "list" and {row, other} == {0, 1})), (example.answer, other)
        for output in written[len(RESULTS) + row % 2 :: 2]:
            scored(data, example, truth, answering(truth, output, forcing), forcing)


def test_an_answer_without_a_trace_is_one_frame(programs: Path) -> None:
    data = data_of(programs, reveal={"answer_only": True})
    example = examples(data, "all", [3])[0]
    truth = CHARACTERS.encode(example.spans)

    def frame(value: str) -> list[str | Special]:
        return [Special.ACTION_SEP, "    return y\n", Special.ARG_SEP, json.dumps(value), Special.FRAME_SEP]

    def right(*pieces: str | Special) -> bool:
        return (
            scored(data, example, truth, freely(truth, ids_of([*pieces, Special.END_OF_TEXT], CHARACTERS)), "free")[
                "right"
            ]
            is True
        )

    assert right(*frame("['ab', 'cd']"))
    assert right(*frame("['ab','cd']"))
    assert not right()
    assert not right(*frame("['ab']"), Special.RETURN_SEP, *frame("['ab', 'cd']"))
    assert not right(*frame("['ab']") * 20, *frame("['ab', 'cd']"))
    assert not right(*frame("['ab', 'cd']"), Special.RETURN_SEP, *frame("['ab', 'cd']"))
    assert not right(Special.EXCEPTION_SEP, *frame("['ab', 'cd']"))
    assert not right(Special.RETURN_SEP, *frame("['ab', 'cd']"))
    assert not right(*frame("['ab', 'cd']")[:-1])


@pytest.mark.parametrize(("form", "forcing"), [("repl", "free"), *zip(cycle(["cwm", "repl"]), FORCINGS)])
def test_the_answer_of_a_program_that_raised_is_its_exception(tmp_path: Path, form: str, forcing: Any) -> None:
    path = tmp_path / "own.jsonl"
    codes = ["def f(x):\n    raise ValueError('a')", "def f(x):\n    raise KeyError('a')", "def f(x):\n    return None"]
    path.write_text("".join(json.dumps({"code": code, "input": "0"}) + "\n" for code in codes))
    data = data_of(path, format=form)
    raised, other, returned = examples(data, "all", range(3))
    truth = CHARACTERS.encode(raised.spans)
    score = scored(data, raised, truth, true_runs(truth, forcing), forcing)
    assert (said(score, forcing), score["answer"]) == (True, raised.answer)
    if forcing == "free":
        for wrong in (other, returned):
            written = CHARACTERS.encode(wrong.spans)
            answered = freely(truth, list(written.ids[start_of(written) :]))
            assert not scored(data, raised, truth, answered, "free")["right"]
            # A session has no events: after a call that raises it reads `None` as after one that returns it.
            if form == "cwm" or wrong is other:
                answered = freely(written, list(truth.ids[start_of(truth) :]))
                assert not scored(data, wrong, written, answered, "free")["right"]


def output(rng: random.Random, truth: Encoded) -> list[int]:
    """What a model might write: the truth damaged, cut, doubled; special tokens; their names as text; anything."""
    true, specials = list(truth.ids[start_of(truth) :]), list(CHARACTERS.special_ids.values())
    text = ids_of(["{}[]'\"\\,:\n \x00é"], CHARACTERS)
    damaged = list(true)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(damaged) + 1)
        damaged[at : at + rng.randrange(2)] = [rng.choice([*specials, *text])] * rng.choice([0, 1, 1, 1, 30])
    found: list[list[int]] = [
        true[: rng.randrange(len(true) + 1)],
        [*true, *true],
        list(truth.ids),
        rng.choices(specials, k=rng.randrange(20)),
        true[: rng.randrange(len(true))] + ids_of(["".join(special.value for special in Special)], CHARACTERS),
        rng.choices(range(CHARACTERS.vocab_size), k=rng.randrange(60)),
        *[damaged] * 2,
    ]
    return rng.choice(found)


@pytest.mark.parametrize(
    ("encoding", "form", "answer_only"),
    [(encoding, *form) for encoding, form in zip(ENCODINGS, cycle([("cwm", False), ("cwm", True), ("repl", False)]))],
)
def test_no_output_makes_a_scorer_raise(programs: Path, encoding: str, form: str, answer_only: bool) -> None:
    data = data_of(programs, format=form, string_encoding=encoding, reveal={"answer_only": answer_only})
    rng = random.Random(f"{encoding} {form} {answer_only}")
    for example in examples(data, "all", range(len(RESULTS))):
        truth = CHARACTERS.encode(example.spans)
        for _ in range(12):
            scored(data, example, truth, freely(truth, output(rng, truth), rng.random() < 0.8), "free")
        for forcing in FORCINGS[1:] if not answer_only else []:
            runs = [
                run
                if rng.random() < 0.6
                else run._replace(
                    ids=[rng.randrange(CHARACTERS.vocab_size) for _ in run.ids], complete=rng.random() < 0.9
                )
                if forcing == "teacher_forced" or rng.random() < 0.5
                else generated(run.start, run.stop, run.ids[: rng.randrange(len(run.ids))])
                for run in true_runs(truth, forcing)
            ]
            scored(data, example, truth, runs, forcing)
