"""Simulation: the prompt is made from the text alone, and what is written is read, marked and judged as in an evaluation."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.execution.program import MARKER, Program
from remedy.data_gen.prompts import prompt_spans, read_program
from remedy.data_gen.roles import Role
from remedy.eval.decoding.protocol import FREELY, Held
from remedy.eval.generators import Generator, LocalGenerator, LoopGenerator
from remedy.eval.view.simulate import Prepared, prepared, simulate, simulation_view, summary
from remedy.models.chunks import Kind
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import TraceTokenizer
from tests.eval.held import CHARACTERS, LOOPS, Noisy
from tests.eval.scripted import drafting
from tests.mock_models import Known, Mock, mistaken

FORMATS = ["cwm", "cwm_unseeded", "cwm_numbered", "cwm_numbers", "repl"]
TRUSTED = {"kind": "programs", "path": "x.py", "tracer": {"isolation": "trusted"}}


def data_for(**changes: Any) -> DataConfig:
    return DataConfig.model_validate({"task": TRUSTED, **changes})


def looping(at: int = 0) -> Program:
    return Program.from_call(LOOPS[at], ("1", "2")[at], "loop.py")


def from_fixture() -> list[Program]:
    lines = Path("tests/fixtures/raising.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [Program.from_call(row["code"], row["input"]) for row in rows]


def mock(program: Prepared, tokenizer: TraceTokenizer, wrong: frozenset[Role] = frozenset(), once: bool = True) -> Mock:
    """A model that writes the true trace, or errs in some roles."""
    prompt = program.truth.ids[: program.truth.roles.count(int(Role.CONTEXT))]
    ids = mistaken(program.truth, wrong, once, tokenizer) if wrong else list(program.truth.ids)
    return Mock([Known(prompt, ids)], tokenizer.vocab_size)


def local(model: Mock) -> Generator:
    return LocalGenerator(ModelReader(model), CHARACTERS, 1)


@pytest.mark.parametrize("format", FORMATS)
def test_the_prompt_is_that_of_the_run(format: str) -> None:
    for program in [looping(0), looping(1), *from_fixture()]:
        for reveal in ({"locals": "diff"}, {"answer_only": True}) if format == "cwm" else ({},):
            data = data_for(format=format, reveal=reveal)
            found = prepared(program, data, CHARACTERS, run=True)
            context = [span for span in found.example.spans if span.role is Role.CONTEXT]
            assert prompt_spans(program, data) == context
            alone = prepared(program, data, CHARACTERS)
            assert not alone.known
            length = found.truth.roles.count(int(Role.CONTEXT))
            assert alone.truth.ids == [*found.truth.ids[:length], CHARACTERS.eos_id]


def test_a_program_is_run_to_check_it_and_else_never(tmp_path: Path) -> None:
    trace = tmp_path / "was_run"
    code = f"open({str(trace)!r}, 'w').close()\ndef main():  {MARKER}\n    return 1\n"
    (tmp_path / "one.py").write_text(code)
    program, data = read_program(tmp_path / "one.py"), data_for()
    found = prepared(program, data, CHARACTERS)
    for constraint in ("", "control_flow"):
        simulate(local(mock(found, CHARACTERS)), CHARACTERS, found, data, constraint, 50)
    assert not trace.exists()
    assert prepared(program, data, CHARACTERS, run=True).known
    assert trace.exists()


@pytest.mark.parametrize("format", FORMATS)
def test_a_right_model_is_right_and_its_frames_are_the_true_ones(format: str) -> None:
    data = data_for(format=format, reveal={"locals": "diff"})
    found = prepared(looping(), data, CHARACTERS, run=True)
    simulation = simulate(local(mock(found, CHARACTERS)), CHARACTERS, found, data, "", 4000)
    assert (simulation.problem, simulation.answer) == ("", "3")
    assert simulation.score is not None
    assert simulation.score["right"]
    assert simulation.frames == simulation.true
    context, *blocks = simulation_view(simulation, data, "", {}).blocks
    assert context.frame < 0
    for block in blocks:
        assert not block.first_error
        assert [token.id for token in block.written or ()] == [token.id for token in block.tokens]


@pytest.mark.parametrize(
    ("format", "role"),
    [("cwm", Role.EVENT), ("cwm_numbers", Role.ACTION), ("cwm", Role.STATE), ("cwm_numbers", Role.VALUE)],
)
def test_the_first_error_is_the_scorers(format: str, role: Role) -> None:
    data = data_for(format=format)
    found = prepared(looping(1), data, CHARACTERS, run=True)
    simulation = simulate(local(mock(found, CHARACTERS, frozenset({role}))), CHARACTERS, found, data, "", 4000)
    assert simulation.score is not None
    wrong = [block.frame for block in simulation_view(simulation, data, "", {}).blocks if block.first_error]
    assert wrong == [simulation.score["first_error_frame"]]
    assert summary(simulation, 1, 0.0)["checked"].endswith(f"first error at frame {wrong[0]} ({role.label})")


@pytest.mark.parametrize(
    ("constraint", "memory"),
    [("", None), ("", 2), ("control_flow", {"frames": 1, "open_calls": True})],
)
def test_tokens_are_told_as_they_are_written_whoever_writes_them(constraint: str, memory: Any) -> None:
    """Of a model that errs everywhere: once each and in order, in the plain loop and where they are guessed."""
    data = data_for(memory=memory)
    found = prepared(looping(), data, CHARACTERS)
    truth = list(prepared(looping(), data, CHARACTERS, run=True).truth.ids)

    def following(read: list[int]) -> int:
        at = random.Random(repr(read[-2:])).random()
        return truth[len(read) % len(truth)] if at < 0.7 else int(at * CHARACTERS.vocab_size) % CHARACTERS.vocab_size

    expected = None
    for plain in (True, False):
        reader: Any = Noisy(following, CHARACTERS.vocab_size, Kind.CROP)
        generator: Any = LoopGenerator(reader, CHARACTERS) if plain else drafting(reader, CHARACTERS, 1)
        told: list[tuple[int, float, Held]] = []
        listener = lambda *token, told=told: told.append(token)  # noqa: E731
        simulation = simulate(generator, CHARACTERS, found, data, constraint, 150, listener)
        [written] = simulation.written.runs
        assert told == list(zip(written.ids, written.logprobs, written.held or [FREELY] * len(written.ids)))
        shown = [token for block in simulation_view(simulation, data, "", {}).blocks[1:] for token in block.tokens]
        assert [token.id for token in shown] == written.ids
        expected = expected or written.ids
        assert written.ids == expected


def test_a_limit_on_tokens_leaves_no_answer() -> None:
    data = data_for()
    found = prepared(looping(), data, CHARACTERS)
    true = prepared(looping(), data, CHARACTERS, run=True)
    simulation = simulate(local(mock(true, CHARACTERS)), CHARACTERS, found, data, "", 60)
    assert (simulation.problem, simulation.answer, simulation.asked) == ("a frame without its end", "", 60)
    assert summary(simulation, 1, 0.0)["no answer"] == "the limit on tokens came first"
