"""Simulation: the prompt is made from the text alone, and what is written is read, marked and judged as in an evaluation."""

import random
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Execution, executions
from remedy.data_gen.execution.program import MARKER
from remedy.data_gen.prompts import prompt_spans
from remedy.data_gen.roles import Role
from remedy.data_gen.splits import ALL
from remedy.eval.decoding.protocol import TokenListener, TokenOrigin, ignore_token
from remedy.eval.diagnostics import Condition
from remedy.eval.diagnostics.programs import ProgramsDiagnostic
from remedy.eval.generators.base import Generator
from remedy.eval.generators.loop import LoopGenerator
from remedy.eval.generators.speculative import LocalGenerator
from remedy.eval.view.model import View
from remedy.launch.simulation import prepared, written_view
from remedy.models.chunks import Kind
from remedy.models.reader import ModelReader
from tests.eval.constrained_runs import CHARACTERS, LOOPS, Noisy
from tests.eval.scripted import drafting
from tests.mock_models import Known, Mock, mistaken

FORMATS = ["cwm", "cwm_unseeded", "cwm_numbered", "cwm_numbers", "repl"]
PROGRAMS = ProgramsDiagnostic(kind="programs")


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("loops")
    for number, code in enumerate(LOOPS[:2]):
        PATHS[number] = folder / f"loop{number}.py"
        PATHS[number].write_text(code)


PATHS: dict[int, Path] = {}


def looping(number: int = 0, forcing: str = "free", **changes: Any) -> Condition:
    """A program with its input."""
    return condition({"path": str(PATHS[number]), "input": str(number + 1)}, forcing, **changes)


def condition(task: dict[str, str], forcing: str = "free", **changes: Any) -> Condition:
    given = {"kind": "programs", "tracer": {"isolation": "trusted"}, **task}
    data = DataConfig.model_validate({"task": given, **changes})
    return PROGRAMS.condition(data, forcing, 1, ALL, benchmark="x", rewrite="none")


def execution(asked: Condition, run: bool = True, index: int = 0) -> Execution:
    return executions(asked.data, ALL, [index], run=run)[0]


def local(asked: Condition, wrong: frozenset[Role] = frozenset()) -> Generator:
    """A model that writes the true trace, or errs once in some roles."""
    _, truth = prepared(execution(asked), asked, CHARACTERS)
    prompt = truth.ids[: truth.roles.count(int(Role.CONTEXT))]
    ids = mistaken(truth, wrong, True, CHARACTERS) if wrong else list(truth.ids)
    return LocalGenerator(ModelReader(Mock([Known(prompt, ids)], CHARACTERS.vocab_size)), CHARACTERS, 1)


def viewed(
    generator: Generator, asked: Condition, run: bool, most: int = 4000, listener: TokenListener = ignore_token
) -> View:
    return written_view(generator, CHARACTERS, asked, execution(asked, run), most, listener)


@pytest.mark.parametrize("format", FORMATS)
def test_the_prompt_is_that_of_the_run(format: str) -> None:
    raising = Path("tests/fixtures/raising.jsonl")
    count = len(raising.read_text().splitlines())
    for reveal in ({"locals": "diff"}, {"answer_only": True}) if format == "cwm" else ({},):
        own = [(looping(number, format=format, reveal=reveal), 0) for number in (0, 1)]
        rows = condition({"path": str(raising)}, format=format, reveal=reveal)
        for asked, index in [*own, *((rows, index) for index in range(count))]:
            example, truth = prepared(execution(asked, index=index), asked, CHARACTERS)
            context = [span for span in example.spans if span.role is Role.CONTEXT]
            assert prompt_spans(example.trace.program, asked.data) == context
            alone, prompt = prepared(execution(asked, False, index), asked, CHARACTERS)
            assert alone.outcome == "not run"
            length = truth.roles.count(int(Role.CONTEXT))
            assert prompt.ids == [*truth.ids[:length], CHARACTERS.eos_id]


def test_a_program_is_run_to_check_it_and_else_never(tmp_path: Path) -> None:
    trace = tmp_path / "was_run"
    code = f"open({str(trace)!r}, 'w').close()\ndef main():  {MARKER}\n    return 1\n"
    (tmp_path / "one.py").write_text(code)
    for forcing in ("free", "control_flow"):
        asked = condition({"path": str(tmp_path / "one.py")}, forcing)
        assert viewed(local(looping()), asked, False, 50).facts["truth"] == "not known: not run"
    assert not trace.exists()
    assert execution(asked).kind == "ok"
    assert trace.exists()


@pytest.mark.parametrize("format", FORMATS)
def test_a_right_model_is_right_and_its_frames_are_the_true_ones(format: str) -> None:
    asked = looping(format=format, reveal={"locals": "diff"})
    for run in (True, False):
        view = viewed(local(asked), asked, run)
        assert view.facts["answer"] == "3"
        assert view.facts.get("right") == ("yes" if run else None)
    context, *blocks = viewed(local(asked), asked, True).blocks
    assert context.frame < 0
    for block in blocks:
        assert not block.first_error
        assert [token.id for token in block.written or ()] == [token.id for token in block.tokens]


@pytest.mark.parametrize(
    ("format", "role"),
    [("cwm", Role.EVENT), ("cwm_numbers", Role.ACTION), ("cwm", Role.STATE), ("cwm_numbers", Role.VALUE)],
)
def test_the_first_error_is_the_scorers(format: str, role: Role) -> None:
    asked = looping(1, format=format)
    view = viewed(local(asked, frozenset({role})), asked, True)
    assert view.facts["first error role"] == role.label
    [wrong] = [block for block in view.blocks if block.first_error]
    assert {token.role for token in wrong.written or () if token.wrong} == {role}


def test_what_a_forcing_feeds_is_not_the_models() -> None:
    asked = looping(1, "action_forced")
    view = viewed(local(asked, frozenset({Role.VALUE})), asked, True)
    written = [token for block in view.blocks for token in block.written or ()]
    assert {token.role for token in written if token.supervised} == {Role.STATE, Role.VALUE}
    assert {token.role for token in written if token.wrong} == {Role.VALUE}


@pytest.mark.parametrize(
    ("forcing", "memory"),
    [("free", None), ("free", 2), ("control_flow", {"frames": 1, "open_calls": True})],
)
def test_tokens_are_told_as_they_are_written_whoever_writes_them(forcing: str, memory: Any) -> None:
    """Of a model that errs everywhere: once each and in order, in the plain loop and where they are guessed."""
    asked = looping(0, forcing, memory=memory)
    truth = list(prepared(execution(asked), asked, CHARACTERS)[1].ids)

    def following(read: list[int]) -> int:
        at = random.Random(repr(read[-2:])).random()
        return truth[len(read) % len(truth)] if at < 0.7 else int(at * CHARACTERS.vocab_size) % CHARACTERS.vocab_size

    expected = None
    for plain in (True, False):
        reader: Any = Noisy(following, CHARACTERS.vocab_size, Kind.CROP)
        generator: Any = LoopGenerator(reader, CHARACTERS) if plain else drafting(reader, CHARACTERS, 1)
        generator.name = "noisy"
        told: list[tuple[int, float, TokenOrigin]] = []
        view = viewed(generator, asked, False, 150, lambda *token, told=told: told.append(token))
        shown = [token for block in view.blocks[1:] for token in block.tokens]
        assert [token.id for token in shown] == [token for token, *_ in told]
        assert [token.logprob for token in shown] == [None if held.certain else logprob for _, logprob, held in told]
        ids = [token.id for token in shown]
        expected = expected or ids
        assert ids == expected


def test_a_limit_on_tokens_leaves_no_answer() -> None:
    facts = viewed(local(looping()), looping(), False, 60).facts
    assert facts["no answer"] == "the limit on tokens came first"
    assert "60 tokens written" in facts["wrote"]
