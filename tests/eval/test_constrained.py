"""Decoding under control flow: no event or line is written that the program does not allow; certain tokens are fed, without a truth."""

import json
import random
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.settings import ConfigError, UserError, build
from remedy.eval.allowed import Place, continued
from remedy.eval.config import EvalConfig
from remedy.eval.constraints import check_interpreter, starts_of
from remedy.eval.decoding import Generated
from remedy.eval.evaluate import run_condition
from remedy.eval.forcings import ACTION_FORCED, FREE
from remedy.eval.generators import Journal, LocalGenerator, LoopGenerator, Writing, Written
from remedy.eval.generators.base import cursor_of
from remedy.eval.scoring.common import Decoded, spliced
from remedy.eval.scoring.frames import score_frames
from remedy.models.chunks import Form, Rewind
from remedy.models.encoding import encoded_examples
from remedy.models.mixers import MIXERS
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends.byte_pairs import BytePairSettings
from remedy.models.tokenizer_backends.characters import CharacterSettings
from tests.eval.scripted import MEMORIES, Next, Scripted, drafting, erring
from tests.eval.test_decoding import small_model
from tests.tiny_models import FAMILIES, tiny_model

CHARACTERS = build_tokenizer(CharacterSettings())
S3 = {"task": {"kind": "permutation", "n": 3, "length": [2, 6]}, "format": "cwm"}
STRINGS = {"task": {"kind": "composition", "depth": 2, "functions": ["mirror_str", "repeat_str", "remove_vowels"]}}
RAISING = {"task": {"kind": "programs", "path": "tests/fixtures/raising.jsonl", "tracer": {"isolation": "trusted"}}}
CONSTRAINED = Writing(FREE, max_new_tokens=10_000, constraint="control_flow")


class Noisy(Scripted):
    """A model whose less likely tokens differ in likelihood too, as a choice among some of them asks for."""

    def logits(self, read: list[int]) -> torch.Tensor:
        generator = torch.Generator().manual_seed(zlib.crc32(repr(read[-3:]).encode()))
        return super().logits(read) + torch.rand(self.vocabulary, generator=generator)


class Prepared:
    """Examples with their tokens and where their traces begin."""

    def __init__(
        self, data: dict[str, Any], which: int | range, tokenizer: TraceTokenizer = CHARACTERS, split: str = "test"
    ) -> None:
        self.data = DataConfig.model_validate(data)
        self.tokenizer = tokenizer
        indices = which if isinstance(which, range) else range(which)
        found = [pair for pair in encoded_examples(self.data, tokenizer, split, indices) if pair[0].outcome == "ok"]
        self.examples: list[Example] = [example for example, _ in found]
        self.truths: list[Encoded] = [truth for _, truth in found]

    @property
    def starts(self) -> list[Place]:
        return starts_of("control_flow", self.examples, self.data, self.tokenizer)

    def reader(self, following: Next, rewind: Rewind = Rewind.CROP, form: Form = Form.TOGETHER) -> Any:
        return Noisy(following, self.tokenizer.vocab_size, rewind, form)

    def erring(self, seed: int, rate: float, context: int = 3) -> Next:
        return erring(self.truths, self.tokenizer.vocab_size, seed, rate, context)


LOOPS = (
    "def f(n):\n    while n < 3:\n        if n == 1:\n            n += 1\n        n += 1\n    return n\n",
    "def f(n):\n    try:\n        a = [i for i in range(n)]\n        a = 1 // a[0]\n    except E:\n        a = g(a)\n    return a\n"
    "def g(a):\n    return a\nE = ZeroDivisionError\n",
)
"""Programs that branch, with an exception that is caught: the results are 3 and [0, 1]."""


def programs(folder: Path, *rows: dict[str, str]) -> dict[str, Any]:
    """The data of these programs."""
    path = folder / "programs.jsonl"
    path.write_text("".join(json.dumps({"id": str(at), **row}) + "\n" for at, row in enumerate(rows)))
    return {"task": {"kind": "programs", "path": str(path), "tracer": {"isolation": "trusted"}}}


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    results = zip(LOOPS, ("1", "2"), ("3", "[0, 1]"))
    rows = [{"code": code, "input": given, "output": result} for code, given, result in results]
    return Prepared(programs(tmp_path_factory.mktemp("loops"), *rows), 2, split="all")


@pytest.fixture(scope="module")
def permutations() -> Prepared:
    return Prepared(S3, 5)


def assert_alike(found: Sequence[Written], expected: Sequence[Written]) -> None:
    """The same tokens, and the same was cut, but for rounding."""
    for one, other in zip(found, expected, strict=True):
        (mine,), (true,) = one.runs, other.runs
        assert (mine.ids, mine.complete) == (true.ids, true.complete)
        assert [held._replace(cut=0) for held in mine.held] == [held._replace(cut=0) for held in true.held]
        assert [held.cut for held in mine.held] == pytest.approx([held.cut for held in true.held], abs=1e-4)
        assert mine.logprobs == pytest.approx(true.logprobs, abs=1e-4)
        assert mine.margins == pytest.approx(true.margins, abs=2e-4)


def assert_held(run: Generated, start: Place, tokenizer: TraceTokenizer, most: int) -> None:
    """It was written along the constraint, what was certain was fed, and with that it is no longer than a free one may be."""
    place: Place | None = start
    for token, logprob, held in zip(run.ids, run.logprobs, run.held, strict=True):
        assert place is not None
        allowed = place.allowed()
        assert held.certain == (allowed.certain is not None)
        assert held.choices == (0 if held.certain or allowed.text else len(allowed.ids))
        assert (logprob == 0) if held.certain else (logprob <= 0)
        assert 0 <= held.cut <= 1
        place = place.after(token)
    assert place is not None
    assert place.done == run.complete
    assert len(run.ids) <= most


@pytest.mark.parametrize("rewind", Rewind)
def test_whatever_a_model_writes_is_what_the_plain_loop_writes(loops: Prepared, rewind: Rewind) -> None:
    draws = random.Random(str(rewind))
    for seed in range(6):
        writing = CONSTRAINED._replace(max_new_tokens=draws.choice([3, 60, 250]), memory=draws.choice(MEMORIES))
        rate = draws.choice([0.0, 0.02, 0.2, 1.0])
        how = draws.choice([Form.WHOLE, Form.ALONE, Form.TOGETHER, Form.TOGETHER])
        reader = loops.reader(
            loops.erring(seed, rate, draws.choice([1, 2, 5])), Rewind.CROP if how is Form.WHOLE else rewind, how
        )
        reader.limit = draws.choice([None, max(len(truth.ids) for truth in loops.truths) + 3])
        expected = LoopGenerator(reader, CHARACTERS).generate(loops.truths, writing, starts=loops.starts)
        found = drafting(reader, CHARACTERS, draws.choice([1, 3])).generate(loops.truths, writing, starts=loops.starts)
        assert_alike(found, expected)
        for one, start in zip(expected, loops.starts):
            (run,) = one.runs
            assert_held(run, start, CHARACTERS, writing.max_new_tokens)


@pytest.mark.parametrize("format", ["cwm", "cwm_unseeded", "cwm_numbered", "cwm_numbers"])
@pytest.mark.parametrize("reveal", [{}, {"locals": "diff"}, {"spacing": 3}], ids=["full", "diff", "spaced"])
def test_a_model_that_writes_the_truth_is_never_masked(loops: Prepared, format: str, reveal: dict[str, Any]) -> None:
    made = Prepared({**loops.data.model_dump(), "format": format, "reveal": reveal}, 2, split="all")
    assert all(example.returns for example in made.examples)
    never_masked(made, made.starts)


def never_masked(made: Prepared, starts: Sequence[Place]) -> tuple[int, int]:
    """It writes the whole truth in one call, and nothing is changed; how many tokens there are, and how many it wrote."""
    total = asked = 0
    for truth, start in zip(made.truths, starts):
        reader = made.reader(made.erring(0, 0.0, 2))
        reader.following = lambda read, ids=truth.ids: (*ids, 0)[len(read)]
        (written,) = drafting(reader, made.tokenizer, 1).generate([truth], CONSTRAINED, starts=[start])
        (run,) = written.runs
        assert run.ids == list(truth.ids[run.start :])
        assert run.complete
        assert not any(held.changed for held in run.held)
        assert reader.calls == 1
        total, asked = total + len(run.ids), asked + run.asked
    return total, asked


def test_programs_that_raise_are_no_exception() -> None:
    """Where the data do not say that a program returns, exceptions may be raised that nothing catches."""
    made = Prepared(RAISING, 1, split="all")
    assert any(example.trace.raised for example in made.examples)
    assert not any(example.returns for example in made.examples)
    never_masked(made, made.starts)


@pytest.mark.parametrize("moves", ["swaps", "full"])
@pytest.mark.parametrize("answer", ["string", "none"])
def test_on_straight_line_programs_it_is_action_forcing_without_the_truth(moves: str, answer: str) -> None:
    """To the token, whatever is written of states and values, though lines repeat."""
    made = Prepared({**S3, "task": {**S3["task"], "moves": moves, "answer": answer}}, 4)  # type: ignore[dict-item]
    compared = 0
    for seed in range(4):
        reader = made.reader(made.erring(seed, (0.01, 0.1, 0.3, 0.0)[seed], 2))
        forced = LoopGenerator(reader, CHARACTERS).generate(made.truths, Writing(ACTION_FORCED))
        prompts = [_prompt(truth) for truth in made.truths]
        found = LoopGenerator(reader, CHARACTERS).generate(prompts, CONSTRAINED, starts=made.starts)
        for truth, one, other in zip(made.truths, forced, found):
            (run,) = other.runs
            if all(part.complete for part in one.runs):
                compared += 1
                assert run.ids == spliced(truth.ids, one.runs)[run.start :]
                assert run.asked == sum(len(part.ids) + 1 for part in one.runs)  # each text is ended by a token
    assert compared >= 10


def _prompt(truth: Encoded) -> Encoded:
    """The same without what is asked for."""
    context = list(truth.roles).count(int(Role.CONTEXT))
    return Encoded(*(list(part[:context]) for part in truth))


@pytest.mark.parametrize("generator", ["loop", "local"])
def test_the_truth_changes_nothing(loops: Prepared, generator: str) -> None:
    reader = loops.reader(loops.erring(3, 0.05))

    def written(truths: list[Encoded]) -> Any:
        made: Any = LoopGenerator(reader, CHARACTERS) if generator == "loop" else drafting(reader, CHARACTERS, 3)
        return [
            one.runs[0].ids
            for one in made.generate(truths, CONSTRAINED._replace(max_new_tokens=300), starts=loops.starts)
        ]

    expected = written(loops.truths)
    assert written([_prompt(truth) for truth in loops.truths]) == expected
    context = int(Role.CONTEXT)
    tails = [[part[list(other.roles).count(context) :] for part in other] for other in reversed(loops.truths)]
    mixed = [Encoded(*([*a, *b] for a, b in zip(_prompt(one), tail))) for one, tail in zip(loops.truths, tails)]
    assert written(mixed) == expected


def test_choices_are_the_likeliest_of_what_is_allowed_and_what_was_cut_is_said(loops: Prepared) -> None:
    """Against the softmax of what a model says after everything that was written before."""
    reader = loops.reader(loops.erring(1, 0.3))
    truth, start = loops.truths[0], loops.starts[0]
    (written,) = LoopGenerator(reader, CHARACTERS).generate(
        [truth], CONSTRAINED._replace(max_new_tokens=300), starts=[start]
    )
    (run,) = written.runs
    place: Place | None = start
    masked = 0
    for at, (token, logprob, held) in enumerate(zip(run.ids, run.logprobs, run.held)):
        assert place is not None
        chances = reader.logits([*truth.ids[: run.start], *run.ids[:at]]).softmax(-1)
        if held.choices:
            masked += 1
            ids = sorted(place.allowed().ids)
            assert token == ids[int(chances[ids].argmax())]
            assert held.cut == pytest.approx(1 - float(chances[ids].sum()), abs=1e-5)
            assert held.changed == (int(chances.argmax()) != token)
            assert logprob == pytest.approx(float(chances[token].log()), abs=1e-4)
        place = place.after(token)
    assert masked


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**9), st.integers(1, 120))
def test_a_model_that_writes_anything_stays_within_the_program(loops: Prepared, seed: int, most: int) -> None:
    def anything(read: list[int]) -> int:
        return random.Random(zlib.crc32(repr((seed, len(read), read[-2:])).encode())).randrange(CHARACTERS.vocab_size)

    reader = loops.reader(anything)
    writing = CONSTRAINED._replace(max_new_tokens=most)
    found = drafting(reader, CHARACTERS, 2).generate(loops.truths, writing, starts=loops.starts)
    for one, start in zip(found, loops.starts):
        assert_held(one.runs[0], start, CHARACTERS, most)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_guess_goes_on_as_the_program_allows(loops: Prepared, data: st.DataObject) -> None:
    """However it is wrong: nothing that is refused is guessed, and of what is right nothing is lost."""
    number = data.draw(st.integers(0, 1))
    truth, place = loops.truths[number], loops.starts[number]
    true = list(truth.ids[list(truth.roles).count(int(Role.CONTEXT)) :])
    known, most = data.draw(st.integers(0, len(true) - 1)), data.draw(st.integers(1, 80))
    for token in true[:known]:
        after = place.after(token)
        assert after is not None
        place = after
    right = data.draw(st.integers(0, 60))
    wrong = data.draw(st.lists(st.integers(0, CHARACTERS.vocab_size - 1), max_size=10))
    found = continued(place, [*true[known : known + right], *wrong], most)
    assert len(found) <= most
    assert found[: min(right, most)] == true[known : known + right][:most]
    for token in found:
        after = place.after(token)
        assert after is not None
        place = after


def test_what_is_kept_as_it_comes_is_what_was_written(loops: Prepared, tmp_path: Path) -> None:
    """With how each token came about; and what was written freely is something else."""
    writing = CONSTRAINED._replace(max_new_tokens=300)
    found = drafting(loops.reader(loops.erring(1, 0.1)), CHARACTERS, 2).generate(
        loops.truths, writing, starts=loops.starts
    )
    journal = Journal(tmp_path / "unfinished", "x")
    for truth, one in zip(loops.truths, found):
        journal.add(truth, writing, one)
    again = Journal(tmp_path / "unfinished", "x")
    assert [again.find(truth, writing) for truth in loops.truths] == found
    assert again.find(loops.truths[0], writing._replace(constraint="")) is None


def test_a_loop_without_an_end_is_ended(tmp_path: Path) -> None:
    data = programs(
        tmp_path, {"code": "def f(n):\n    while n < 9:\n        n = n\n    return n\n", "input": "9", "output": "9"}
    )
    made = Prepared(data, 1, split="all")
    (blank,), special = CHARACTERS.string_ids(" "), CHARACTERS.special_ids[Special.ACTION_SEP]
    reader = made.reader(lambda read: blank if read[-1] == blank else special)
    (written,) = drafting(reader, CHARACTERS, 1).generate(
        made.truths, CONSTRAINED._replace(max_new_tokens=50), starts=made.starts
    )
    assert not written.runs[0].complete
    assert len(written.runs[0].ids) == 50 > written.runs[0].asked


QUICK = ("attention", "gated_deltanet", "lstm", "mamba", "gemma3_text")


@torch.no_grad()
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    "name",
    [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in dict.fromkeys([*MIXERS, *FAMILIES])],
)
def test_models_write_what_the_plain_loop_writes(permutations: Prepared, name: str, batch: int) -> None:
    """Every mixer, and families of Transformers."""
    model = small_model(name, CHARACTERS) if name in MIXERS else tiny_model(name, CHARACTERS.vocab_size)
    generator = LocalGenerator(ModelReader(model), CHARACTERS, batch)
    fits = [
        pair
        for pair in zip(permutations.truths, permutations.starts)
        if generator.limit is None or len(pair[0].ids) <= generator.limit
    ][:3]
    truths, starts = [truth for truth, _ in fits], [start for _, start in fits]
    for memory in MEMORIES[1::2]:
        writing = CONSTRAINED._replace(max_new_tokens=20, memory=memory)
        expected = LoopGenerator(generator.reader, CHARACTERS).generate(truths, writing, starts=starts)
        assert_alike(generator.generate(truths, writing, starts=starts), expected)


def condition(data: dict[str, Any], forcing: str = "control_flow") -> Any:
    diagnostic = {"kind": "programs", "forcing": [forcing], "answer_only": [False]}
    (found,) = (
        build(EvalConfig, {"diagnostics": [diagnostic]}, "x")
        .diagnostics[0]
        .conditions(DataConfig.model_validate(data), "test")
    )
    return found


def test_it_is_scored_as_what_the_model_writes_freely(loops: Prepared) -> None:
    """Wrong values stay wrong, the right ones right; what was cut and what was certain is kept with every record."""
    config = build(EvalConfig, {"diagnostics": [{"kind": "programs"}], "max_new_tokens": 2000}, "x")
    for wrong in (False, True):
        truths = {tuple(truth.ids[:80]): truth for truth in loops.truths}

        def following(read: list[int], truths: Any = truths, wrong: bool = wrong) -> int:
            truth = truths[tuple(read[:80])]
            if len(read) >= len(truth.ids):
                return 0
            token = truth.ids[len(read)]
            last = truth.roles[len(read)] == Role.VALUE and truth.frames[len(read)] == truth.frames[-3]
            return CHARACTERS.string_ids("z")[0] if wrong and last and CHARACTERS.decode([token]).isalnum() else token

        generator: Any = drafting(loops.reader(following), CHARACTERS, 2)
        ran = run_condition(generator, CHARACTERS, condition(loops.data.model_dump()), config)
        for row, kept in zip(ran.rows, ran.kept):
            assert row["right"] is not wrong
            assert row["failure"] == ("wrong return" if wrong else "")
            assert row["action_exact"] == 1.0
            assert row["written_tokens"] + row["certain_tokens"] == len(kept["ids"]) == len(kept["certain"])
            assert row["certain_tokens"] == sum(kept["certain"]) > 0
            assert row["masked_tokens"] > 0
            assert row["cut_mass"] == pytest.approx(sum(kept["cut"]))
            assert sum(kept["frame_tokens"]) == row["written_tokens"]
            assert all(0 <= cut <= 1 for cut in kept["frame_cut"])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({**S3, "format": "repl"}, "forcing control_flow: format: repl does not write events"),
        ({**STRINGS, "reveal": {"call_depth": 0}}, r"forcing control_flow: reveal\.call_depth: .* leaves frames out"),
        ({**STRINGS, "reveal": {"max_tokens": 500}}, r"forcing control_flow: reveal\.max_tokens: may step over calls"),
    ],
)
def test_what_cannot_be_held_is_refused_in_one_line(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        condition(data)
    assert "\n" not in str(error.value)


def test_answers_at_once_cannot_be_held() -> None:
    data = DataConfig.model_validate({"task": {**S3["task"], "answer": "string"}, "reveal": {"answer_only": True}})
    diagnostic = {"kind": "permutation", "lengths": [2], "forcing": ["control_flow"]}
    with pytest.raises(ConfigError, match=r"reveal\.answer_only"):
        build(EvalConfig, {"diagnostics": [diagnostic]}, "x").diagnostics[0].conditions(data, "test")


def test_another_interpreter_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.version_info", (3, 12, 1))
    with pytest.raises(ConfigError, match=r"forcing control_flow: .*CPython 3\.11.* this is cpython 3\.12\.1") as error:
        check_interpreter("control_flow", DataConfig.model_validate(STRINGS))
    assert "\n" not in str(error.value)


def test_a_task_that_says_wrongly_that_its_programs_return_is_named() -> None:
    made = Prepared(RAISING, 1, split="all")
    example = next(one for one in made.examples if one.trace.raised)
    object.__setattr__(example, "returns", True)
    with pytest.raises(UserError, match="the task says that it returns, and it raised"):
        starts_of("control_flow", [example], made.data, CHARACTERS)


@pytest.mark.slow
@pytest.mark.parametrize(("benchmark", "every", "least"), [("cruxeval", 1, 0.3), ("humaneval", 6, 0.3)])
def test_no_true_token_of_a_benchmark_is_masked(shared: Path, benchmark: str, every: int, least: float) -> None:
    """A model that writes them is asked for the rest alone, and never given a choice without the true token."""
    task = {"kind": "programs", "benchmark": benchmark, "path": str(shared / f"{benchmark}.jsonl")}
    tokenizer = build_tokenizer(BytePairSettings(vocab_size=400), DataConfig.model_validate(STRINGS))
    data = {"task": {**task, "tracer": {"isolation": "trusted", "max_frames": 2000}}, "reveal": {"locals": "diff"}}
    total = asked = 0
    for start in range(0, 720, 80):
        made = Prepared(data, range(start, start + 80, every), tokenizer, "all")
        for truth, place in zip(made.truths, made.starts):
            cursor = cursor_of(truth, CONSTRAINED._replace(max_new_tokens=10**6), tokenizer, None, place)
            cursor.prompt()
            while not cursor.over:
                at = cursor.runs[1][0] + len(cursor.current)
                token = truth.ids[at] if at < len(truth.ids) else -1
                assert cursor.among is None or token in cursor.among
                cursor.next_token(token, -1.0)
            (run,) = cursor.generated
            assert run.ids == list(truth.ids[run.start :])
            total, asked = total + len(run.ids), asked + run.asked
    assert least < 1 - asked / total < 0.5


@pytest.mark.parametrize("shown", [True, False], ids=["all shown", "one in turn"])
@pytest.mark.parametrize(("format", "first"), [("cwm", 1), ("cwm_numbered", 1), ("cwm_numbered", 40)])
def test_a_wrong_action_is_told_by_what_the_program_allows(
    loops: Prepared, format: str, first: int, shown: bool
) -> None:
    """After `if n == 1:` its body may follow and the line after it, and no other; which of them, says the state if it shows all."""
    reveal = {"locals": "full" if shown else "one_in_turn"}
    data = {**loops.data.model_dump(), "format": format, "first_line": first, "reveal": reveal}
    made = Prepared(data, 1, split="all")
    (example,), (truth,) = made.examples, made.truths
    place = next(at for at, frame in enumerate(example.frames) if frame.source.endswith("            n += 1\n"))
    number, start = example.frames[place].number, list(truth.roles).count(int(Role.CONTEXT))
    action = [
        at for at, (of, role) in enumerate(zip(truth.frames, truth.roles)) if of == number and role == Role.ACTION
    ]
    numbers = format == "cwm_numbered"
    texts = {
        (f"{first + 4} " if numbers else "") + "        n += 1\n": "against the written state"
        if shown
        else "allowed by the control flow",
        (f"{first + 5} " if numbers else "") + "    return n\n": "outside the control flow",
        "        n += 2\n": "outside the control flow",
    }
    for text, expected in texts.items():
        ids = [*truth.ids[: action[0]], *CHARACTERS.backend.text_ids(text), *truth.ids[action[-1] + 1 :]]
        run = Generated(start, len(truth.ids), ids[start:], [0.0] * (len(ids) - start), True)
        score = score_frames(Decoded(example, truth, [run], FREE, made.data), CHARACTERS)
        assert (score["first_error_role"], score["wrong_action"]) == ("action", expected), text
    ended = [*truth.ids[: action[0] - 1], CHARACTERS.eos_id]
    while not CHARACTERS.is_special(ended[-2]) or ended[-2] != CHARACTERS.special_ids[Special.FRAME_SEP]:
        del ended[-2]
    run = Generated(start, len(truth.ids), ended[start:], [0.0] * (len(ended) - start), True)
    assert score_frames(Decoded(example, truth, [run], FREE, made.data), CHARACTERS)["wrong_action"] == expected
