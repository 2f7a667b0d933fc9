"""Simulation: the prompt is made from the text alone, frames are told as they close, and judged as an evaluation judges them."""

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.execution.program import MARKER, Program
from remedy.data_gen.prompts import prompt_spans, read_program
from remedy.data_gen.roles import Role
from remedy.eval.decoding.cursor import Generated
from remedy.eval.decoding.forcings import FREE
from remedy.eval.generators import Generator, LocalGenerator, LoopGenerator, Request, Writing
from remedy.eval.records.generations import generation
from remedy.eval.scoring.common import Decoded
from remedy.eval.scoring.reading import places_written
from remedy.eval.view.frames import Following, FrameStream, ModelFrame
from remedy.eval.view.simulate import Prepared, prepared, simulate
from remedy.models.chunks import Kind
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends.byte_pairs import BytePairSettings
from remedy.settings import UserError
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


def test_the_example_is_that_of_the_programs_task(tmp_path: Path) -> None:
    """What is checked against is what an evaluation of the file would be scored against."""
    program = looping(1)
    (tmp_path / "one.py").write_text(program.code)
    data = data_for(task={**TRUSTED, "path": str(tmp_path)}, reveal={"locals": "one_at_random"})
    [expected] = examples(data, "all", [0])
    found = prepared(program, data, CHARACTERS, run=True).example
    assert (found.spans, found.frames, found.answer) == (expected.spans, expected.frames, expected.answer)


def test_a_program_is_run_to_check_it_and_else_never(tmp_path: Path) -> None:
    trace = tmp_path / "was_run"
    code = f"open({str(trace)!r}, 'w').close()\ndef main():  {MARKER}\n    return 1\n"
    (tmp_path / "one.py").write_text(code)
    program, data = read_program(tmp_path / "one.py"), data_for()
    found = prepared(program, data, CHARACTERS)
    for constraint in ("", "control_flow", "guided"):
        simulate(local(mock(found, CHARACTERS)), CHARACTERS, found, data, constraint, 50)
    assert not trace.exists()
    assert prepared(program, data, CHARACTERS, run=True).known
    assert trace.exists()


@pytest.mark.parametrize("format", FORMATS)
def test_a_right_model_is_right_and_its_frames_are_the_true_ones(format: str) -> None:
    data = data_for(format=format, reveal={"locals": "diff"})
    found = prepared(looping(), data, CHARACTERS, run=True)
    shown: list[ModelFrame] = []
    simulation = simulate(local(mock(found, CHARACTERS)), CHARACTERS, found, data, "", 4000, shown.append)
    assert simulation.ended
    assert simulation.answer == "3"
    assert simulation.score is not None
    assert simulation.score["right"]
    assert shown == simulation.frames
    *frames, end = shown
    assert end.is_end
    assert [frame.full for frame in frames] == list(simulation.truth)
    assert not any(frame.wrong or frame.contradiction or frame.problem for frame in shown)
    assert (
        sum(len(frame.tokens) for frame in shown)
        == simulation.asked
        == len(found.truth.ids) - found.truth.roles.count(0)
    )
    told = {name: text for frame in frames for name, text in frame.changed.items()}
    assert told["n"] == "3"


@pytest.mark.parametrize(
    ("format", "role"),
    [("cwm", Role.EVENT), ("cwm_numbers", Role.ACTION), ("cwm", Role.STATE), ("cwm_numbers", Role.VALUE)],
)
def test_the_first_error_is_the_scorers(format: str, role: Role) -> None:
    data = data_for(format=format)
    found = prepared(looping(1), data, CHARACTERS, run=True)
    simulation = simulate(local(mock(found, CHARACTERS, frozenset({role}))), CHARACTERS, found, data, "", 4000)
    assert simulation.score is not None
    wrong = [frame.number for frame in simulation.frames if frame.wrong]
    assert wrong == [simulation.score["frames_right"]]
    assert simulation.score["first_error_frame"] == wrong[0] + 1


def test_a_line_that_its_own_state_does_not_lead_to_is_said() -> None:
    """`while n < 3` is false of 3: what goes on in the loop goes against what was written."""
    data, program = data_for(), looping()
    found = prepared(program, data, CHARACTERS, run=True)
    stream = FrameStream(CHARACTERS, "cwm")
    context = found.truth.roles.count(int(Role.CONTEXT))
    frames = [frame for token in found.truth.ids[context:] for frame in stream.take(token, -0.1)]
    leaving = next(frame for frame in frames if frame.read is not None and "return n" in frame.read.source)
    ids = list(found.truth.ids[context:])
    start = sum(len(frame.tokens) for frame in frames[: leaving.number])
    inside = next(frame for frame in frames if frame.read is not None and "if n == 1" in frame.read.source)
    cuts = [[token.role for token in frame.tokens].index(Role.STRUCTURE) for frame in (leaving, inside)]
    state = [token.id for token in leaving.tokens[: cuts[0]]]
    lines = [token.id for token in inside.tokens[cuts[1] :]]
    odd = [*found.truth.ids[:context], *ids[:start], *state, *lines, CHARACTERS.eos_id]
    model = Mock([Known(list(found.truth.ids[:context]), odd)], CHARACTERS.vocab_size)
    simulation = simulate(local(model), CHARACTERS, prepared(program, data, CHARACTERS), data, "", 4000)
    [against] = [frame for frame in simulation.frames if frame.contradiction and not frame.is_end]
    assert against.number == leaving.number
    assert against.contradiction == "the state written before it leads to line 'return n'"


@pytest.mark.parametrize(
    ("constraint", "memory"),
    [("", None), ("", 2), ("control_flow", {"frames": 1, "open_calls": True}), ("guided", None)],
)
def test_frames_hold_what_was_written_whoever_writes_it(constraint: str, memory: Any) -> None:
    """Of a model that errs everywhere: tokens are told once each and in order, in the plain loop and where they are guessed."""
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
        simulation = simulate(generator, CHARACTERS, found, data, constraint, 150)
        [written] = simulation.written.runs
        told = [token for frame in simulation.frames for token in frame.tokens]
        assert [token.id for token in told] == written.ids
        known = [(None if held.certain else one, held.cut) for one, held in zip(written.logprobs, written.held)]
        assert [(token.logprob, token.cut) for token in told] == (known or [(one, 0.0) for one in written.logprobs])
        expected = expected or written.ids
        assert written.ids == expected


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_kept_and_streamed_frames_are_one(draws: st.DataObject) -> None:
    """Whatever was written, in whatever format: the places and roles of generations, and frames from them."""
    format = draws.draw(st.sampled_from(FORMATS))
    tokenizer = draws.draw(st.sampled_from([CHARACTERS, PAIRS]))
    data = data_for(format=format)
    found = prepared(looping(1), data, tokenizer, run=True)
    context = found.truth.roles.count(int(Role.CONTEXT))
    ids = list(found.truth.ids[context:])
    for _ in range(draws.draw(st.integers(0, 3))):
        at = draws.draw(st.integers(0, len(ids) - 1))
        ids[at : at + draws.draw(st.integers(0, 3))] = [draws.draw(st.integers(0, tokenizer.vocab_size - 1))]
    run = Generated(context, len(found.truth.ids), ids, [-0.01 * at for at in range(len(ids))], True)
    places = places_written(Decoded(found.example, found.truth, [run], FREE, data), ids, tokenizer)
    row = generation(0, "", [run], places)
    stream, following = FrameStream(tokenizer, format), Following()
    frames = [
        following.take(frame)
        for token, logprob in zip(row["ids"], row["logprobs"])
        for frame in stream.take(token, logprob)
    ]
    frames += map(following.take, stream.rest())
    tokens = [token for frame in frames for token in frame.tokens]
    assert [token.id for token in tokens] == ids
    if row["places"] != sorted(row["places"]):  # in a session, what seemed to begin a command may not
        assert format == "repl"
        return
    assert [token.frame for token in tokens] == row["places"]
    assert [token.role.label for token in tokens] == row["roles"]
    for frame, place, total, least in zip(
        frames, row["frame_places"], row["frame_logprob_sum"], row["frame_logprob_min"], strict=True
    ):
        block = frame.block(7)
        assert (frame.number, {token.frame for token in block.tokens}) == (place, {7})
        assert block.probability == pytest.approx(math.exp(total))
        assert f" {math.exp(least):.3g}" in block.note


PAIRS = build_tokenizer(
    BytePairSettings(vocab_size=320), DataConfig.model_validate({"task": {"kind": "composition", "depth": 1}})
)


def test_a_character_in_several_tokens_is_read_whole() -> None:
    program = Program(f"def main():  {MARKER}\n    a = 'λ🙂'\n    return a\n")
    data = data_for()
    found = prepared(program, data, PAIRS, run=True)
    simulation = simulate(LocalGenerator(ModelReader(mock(found, PAIRS)), PAIRS, 1), PAIRS, found, data)
    assert simulation.answer == "'λ🙂'"
    assert simulation.frames[0].label == "line"
    assert not any(frame.wrong for frame in simulation.frames)


def test_a_limit_on_tokens_leaves_no_answer() -> None:
    data = data_for()
    found = prepared(looping(), data, CHARACTERS)
    true = prepared(looping(), data, CHARACTERS, run=True)
    simulation = simulate(local(mock(true, CHARACTERS)), CHARACTERS, found, data, "", 60)
    assert (simulation.ended, simulation.answer, simulation.asked) == (False, "", 60)
    assert simulation.frames[-1].problem == "a frame without its end"


def test_a_prompt_longer_than_the_model_reads_is_said() -> None:
    data = data_for()
    found = prepared(looping(), data, CHARACTERS)
    reader: Any = Noisy(lambda read: 0, CHARACTERS.vocab_size, Kind.CROP, limit=20)
    with pytest.raises(UserError, match="reads 20 tokens, and the program's prompt has"):
        simulate(LoopGenerator(reader, CHARACTERS), CHARACTERS, found, data)


def test_listeners_of_a_batch_each_hear_their_own() -> None:
    data = data_for()
    both = [prepared(looping(at), data, CHARACTERS, run=True) for at in range(2)]
    known = [mock(one, CHARACTERS).known[0] for one in both]
    generator = LocalGenerator(ModelReader(Mock(known, CHARACTERS.vocab_size)), CHARACTERS, 2)
    heard: list[list[int]] = [[], []]
    listeners = [lambda token, logprob, held, mine=mine: mine.append(token) for mine in heard]
    asked = [Request(one.truth, None, listener) for one, listener in zip(both, listeners)]
    written = generator.generate(asked, Writing(FREE))
    assert [one.runs[0].ids for one in written] == heard
