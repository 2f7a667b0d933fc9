"""Guessing and judging in parallel writes what the plain loop writes, for any model, forcing, batch and limit: in one call if right."""

import math
import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from remedy.data_gen.memory import Memory
from remedy.data_gen.roles import Role
from remedy.data_gen.windows import windows
from remedy.eval.decoding import Generated
from remedy.eval.forcings import ACTION_FORCED, FREE, LINE_FORCED, STATE_FORCED
from remedy.eval.generators import LocalGenerator, LoopGenerator, Writing, Written
from remedy.eval.generators.base import cursor_of
from remedy.eval.generators.drafts import Drafter, Source
from remedy.models.chunks import Chunk, Form, Rewind
from remedy.models.mixers import MIXERS
from remedy.models.pace import Pace
from remedy.models.reader import ModelReader
from remedy.models.room import Footprint
from remedy.models.tokenizer import Encoded, TraceTokenizer
from tests.eval.test_decoding import prepared, small_model
from tests.tiny_models import FAMILIES, tiny_model

FORCED = {"free": FREE, "line": LINE_FORCED, "action": ACTION_FORCED, "state": STATE_FORCED}
MEMORIES = (None, None, Memory(frames=1), Memory(frames=2), Memory(frames=1, open_calls=True))
Next = Callable[[list[int]], int]


class Scripted:
    """Stands for a model that is a function of what a row has read, and its reader: by steps, and by chunks as `rewind` says."""

    name = "scripted"
    steady = True
    context = None
    footprint = Footprint(1.0, 1.0)
    together = 0

    def __init__(
        self, following: Next, vocabulary: int, rewind: Rewind, form: Form = Form.TOGETHER, limit: int | None = None
    ):
        self.following, self.vocabulary, self.rewind, self.form, self.limit = following, vocabulary, rewind, form, limit
        self.departure = SimpleNamespace(logprob=0.0)
        self.pace = Pace(12.0, 0.0)
        self.memory = math.inf
        self.calls = 0
        self.rows: list[int] = []
        self.read: list[list[int]] = []
        self.states: dict[int, list[int]] = {}
        self.marked: dict[int, list[int]] = {}
        self.open: Mapping[int, Chunk] = {}

    def prefill(self, prompts: Sequence[Sequence[int]]) -> torch.Tensor:
        self.read = [list(prompt) for prompt in prompts]
        return self.step([None] * len(prompts))

    def step(self, tokens: Any) -> Any:
        if isinstance(tokens, Mapping):  # of a reader by chunks
            return self.one_more(tokens)
        self.calls += 1
        for row, token in zip(self.read, tokens):
            row += [] if token is None else [token]
        done = torch.zeros(self.vocabulary)
        begins = self.read and all(token is None for token in tokens)
        return torch.stack(
            [self.logits(row) if begins or token is not None else done for row, token in zip(self.read, tokens)]
        )

    def parallel(self, sequences: Sequence[Sequence[int]]) -> Iterator[torch.Tensor]:
        raise NotImplementedError

    def room(self) -> float:
        return self.memory

    def chunks(self) -> "Scripted":
        self.states, self.marked = {}, {}
        return self

    def held(self, row: int) -> int:
        return len(self.states.get(row, ()))

    def extend(self, chunks: Mapping[int, Chunk]) -> dict[int, torch.Tensor]:
        self.calls += 1
        self.open = chunks
        assert len({self.held(row) > 0 for row in chunks}) == 1
        assert self.form is not Form.ALONE or len(chunks) == 1
        self.together = max(self.together, len(chunks))
        self.rows.append(len(chunks))
        lengths = {len(chunk.tokens) for chunk in chunks.values()}
        if any(map(self.held, chunks)):
            assert self.rewind is Rewind.CROP or len(lengths) == 1
            assert self.rewind is not Rewind.NEVER or lengths == {1}
        found = {}
        for row, (tokens, guesses) in chunks.items():
            read = [*self.states.get(row, ()), *tokens]
            assert guesses < len(tokens)
            assert self.limit is None or len(read) <= self.limit
            ends = range(len(read) - guesses, len(read) + 1)
            found[row] = torch.stack([self.logits(read[:end]) for end in ends])
        return found

    def one_more(self, tokens: Mapping[int, int]) -> tuple[list[int], torch.Tensor]:
        assert all(map(self.held, tokens))
        found = Scripted.extend(self, {row: Chunk([token], 0) for row, token in tokens.items()})
        self.keep(dict.fromkeys(tokens, 1))
        rows = sorted(tokens, reverse=True)
        return rows, torch.cat([found[row] for row in rows])

    @property
    def marks(self) -> bool:
        return self.form is not Form.WHOLE and self.rewind is not Rewind.NEVER

    def mark(self, row: int) -> None:
        self.marked.setdefault(row, self.states[row])

    def back(self, rows: Sequence[int]) -> None:
        for row in rows:
            self.states.pop(row, None)
        self.states |= {row: self.marked[row] for row in rows if row in self.marked}

    def forget(self, rows: Sequence[int]) -> None:
        for row in rows:
            self.states.pop(row, None)
            self.marked.pop(row, None)

    def keep(self, kept: Mapping[int, int]) -> None:
        uneven = len({len(chunk.tokens) for chunk in self.open.values()}) > 1
        for row, chunk in self.open.items():
            before = self.states.pop(row, [])
            if row not in kept:
                continue
            assert 0 <= kept[row] <= len(chunk.tokens)
            whole = kept[row] == len(chunk.tokens) and not uneven
            if self.form is not Form.WHOLE and (whole or self.rewind is Rewind.CROP):
                self.states[row] = [*before, *chunk.tokens[: kept[row]]]
            elif before:
                self.states[row] = before

    def logits(self, read: list[int]) -> torch.Tensor:
        return torch.zeros(self.vocabulary).index_fill(0, torch.tensor([self.following(read)]), 9.0)


def drafting(reader: Any, tokenizer: TraceTokenizer, batch_size: int) -> LocalGenerator:
    """A generator over a reader that is there already."""
    return LocalGenerator(reader, tokenizer, batch_size)


def runs(written: Sequence[Written]) -> list[list[Generated]]:
    return [[run._replace(logprobs=[], margins=()) for run in one.runs] for one in written]


def erring(truths: Sequence[Encoded], vocabulary: int, seed: int, rate: float, context: int) -> Next:
    """A model that goes on as the truth does where a row has come to, but for a share of its tokens, in places that depend on the last
    `context` tokens, where it skips one, repeats one, or writes any token there is."""

    def following(read: list[int]) -> int:
        truth = max(truths, key=lambda one: _agreeing(one.ids[:60], read[:60]))
        key = zlib.crc32(repr((seed, read[-context:])).encode())
        chance = random.Random(key)
        place = len(read)
        if chance.random() < rate:
            kind = chance.randrange(4)
            if kind == 0:
                return chance.randrange(vocabulary)
            place += (1, -1, 5)[kind - 1]
        elif context % 2:  # where the last tokens stood in the truth, wherever that is
            last = read[-2:]
            found = [at for at in range(2, len(truth.ids)) if list(truth.ids[at - 2 : at]) == last]
            place = min(found, key=lambda at: abs(at - place), default=place)
        return truth.ids[place] if 0 <= place < len(truth.ids) else chance.randrange(vocabulary)

    return following


def _agreeing(ids: Sequence[int], read: Sequence[int]) -> int:
    return next((at for at, (one, other) in enumerate(zip(ids, read)) if one != other), len(read))


@pytest.mark.parametrize("rewind", Rewind)
@pytest.mark.parametrize("name", FORCED)
@pytest.mark.parametrize("form", ["cwm", "symbolic"])
def test_whatever_a_model_writes_is_what_the_plain_loop_writes(form: str, name: str, rewind: Rewind) -> None:
    """Departing at once, late, often or never, for good or to come back, ending early or never, in runs of other lengths."""
    if form == "symbolic" and name == "line":
        pytest.skip("no events")
    tokenizer, truths = prepared(form, 3 if form == "cwm" else 5)
    draws = random.Random(f"{form} {name} {rewind}")
    for seed in range(2 if form == "cwm" else 12):
        limit = draws.choice([None, None, max(len(truth.ids) for truth in truths) - draws.randrange(30)])
        memory = draws.choice(MEMORIES[: 5 if form == "cwm" else 4])
        writing = Writing(FORCED[name], form == "symbolic", draws.choice([3, 40, 150]), frozenset(), memory)
        rate = draws.choice([0.0, 0.01, 0.1, 0.5, 1.0])
        model = erring(truths, tokenizer.vocab_size, seed, rate, draws.choice([1, 2, 5, 1000]))
        how = draws.choice([Form.WHOLE, Form.ALONE, Form.TOGETHER, Form.TOGETHER])
        reader = Scripted(model, tokenizer.vocab_size, Rewind.CROP if how is Form.WHOLE else rewind, how, limit)
        fitting = [truth for truth in truths if limit is None or len(truth.ids) <= limit]
        if not fitting:
            continue
        expected = LoopGenerator(reader, tokenizer).generate(fitting, writing)  # type: ignore[arg-type]
        batch = draws.choice([1, 2, 5])
        found = drafting(reader, tokenizer, batch).generate(fitting, writing)
        assert runs(found) == runs(expected), (seed, rate, batch, memory)


@pytest.mark.parametrize("rewind", Rewind)
@pytest.mark.parametrize("name", FORCED)
@pytest.mark.parametrize("form", ["cwm", "repl", "symbolic"])
def test_a_trace_that_a_model_gets_right_is_one_call(form: str, name: str, rewind: Rewind) -> None:
    tokenizer, truths = prepared(form, 4)
    for truth in truths:
        reader = Scripted(erring([truth], tokenizer.vocab_size, 0, 0.0, 2), tokenizer.vocab_size, rewind)
        (written,) = drafting(reader, tokenizer, 1).generate([truth], Writing(FORCED[name], form == "symbolic"))
        assert reader.calls == 1
        assert [run.ids for run in written.runs] == [list(truth.ids[run.start : run.stop]) for run in written.runs]


@torch.no_grad()
@pytest.mark.parametrize("mixer", ["attention", "deltanet"])
def test_with_a_memory_a_model_writes_what_the_plain_loop_writes(mixer: str) -> None:
    tokenizer, truths = prepared("symbolic", 3)
    model = small_model(mixer, tokenizer)
    for fed in (FREE, ACTION_FORCED):
        for memory in MEMORIES[2:4]:
            assert_written_alike(model, tokenizer, truths, Writing(fed, True, 25, frozenset(), memory), 3)


@pytest.mark.parametrize("rewind", [Rewind.CROP, Rewind.COPY])
def test_with_a_memory_the_context_is_read_twice_and_not_anew_for_every_frame(rewind: Rewind) -> None:
    tokenizer, (truth,) = prepared("cwm", 1)
    memory = Memory(frames=1)
    frames = len(windows(*truth[:3], memory, tokenizer.special_ids))
    reader = Scripted(erring([truth], tokenizer.vocab_size, 0, 0.0, 1), tokenizer.vocab_size, rewind)
    begun = []
    extend = reader.extend
    reader.extend = lambda chunks: begun.extend([0] * (reader.held(0) == 0)) or extend(chunks)  # type: ignore[method-assign, func-returns-value]
    drafting(reader, tokenizer, 1).generate([truth], Writing(ACTION_FORCED, memory=memory))
    assert frames > 4
    assert len(begun) == 2


def test_rows_that_are_right_are_one_call_together_where_calls_are_dear() -> None:
    tokenizer, truths = prepared("repl", 4)
    reader = Scripted(erring(truths, tokenizer.vocab_size, 0, 0.0, 2), tokenizer.vocab_size, Rewind.CROP)
    reader.pace = Pace(10_000.0, 0.0)
    drafting(reader, tokenizer, 4).generate(truths, Writing(FREE))
    assert reader.calls == 1


def test_a_few_rows_are_judged_first_where_reading_the_truth_of_all_is_dear() -> None:
    tokenizer, truths = prepared("repl", 8)
    wrong = erring(truths, tokenizer.vocab_size, 0, 1.0, 2)
    for overhead, first in ((10_000.0, 8), (100.0, 1)):
        reader = Scripted(wrong, tokenizer.vocab_size, Rewind.CROP)
        reader.pace = Pace(overhead, 0.0)
        drafting(reader, tokenizer, 8).generate(truths, Writing(FREE))
        assert reader.rows[0] == first


@pytest.mark.parametrize("name", FORCED)
def test_examples_with_nothing_to_write_ask_nothing(name: str) -> None:
    tokenizer, truths = prepared("repl", 2)
    context = [truth.roles.count(int(Role.CONTEXT)) for truth in truths]
    prompts = [Encoded(one.ids[:n], one.roles[:n], one.frames[:n], one.strings[:n]) for one, n in zip(truths, context)]
    reader = Scripted(erring(truths, tokenizer.vocab_size, 0, 0.0, 2), tokenizer.vocab_size, Rewind.CROP)
    found = drafting(reader, tokenizer, 2).generate(prompts, Writing(FORCED[name]))
    assert [one.runs for one in found] == [[], []]
    assert reader.calls == 0


@pytest.mark.parametrize("name", FORCED)
def test_one_wrong_token_costs_a_few_calls(name: str) -> None:
    """A run that is written wrongly, and back in step after it."""
    tokenizer, (truth,) = prepared("cwm", 1)
    fed = FORCED[name]
    places = [at for at, role in enumerate(truth.roles) if role not in fed and not tokenizer.is_special(truth.ids[at])]
    at = places[len(places) // 2]
    ids = [*truth.ids, 0]
    ids[at] = next(
        token for token in range(tokenizer.vocab_size) if not tokenizer.is_special(token) and token != ids[at]
    )
    reader = Scripted(lambda read: ids[len(read)], tokenizer.vocab_size, Rewind.CROP)
    drafting(reader, tokenizer, 1).generate([truth], Writing(fed))
    assert reader.calls <= 5


@pytest.mark.parametrize("counted", [False, True], ids=["the same", "with a token that counts"])
@pytest.mark.parametrize("period", [1, 3, 40])
def test_a_model_that_goes_round_is_written_in_few_calls(period: int, counted: bool) -> None:
    """It leaves the truth and says the same tokens again and again, one of which may be another every time."""
    tokenizer, (truth,) = prepared("cwm", 1)
    kinds = sorted({token for token in truth.ids if not tokenizer.is_special(token)})
    begins, most = len(truth.ids) // 2, 600

    def following(read: list[int]) -> int:
        turn, at = divmod(len(read) - begins, period)
        if turn < 0:
            return truth.ids[len(read)]
        return kinds[turn % len(kinds)] if counted and at == 0 else kinds[-1 - at % 7]

    reader = Scripted(following, tokenizer.vocab_size, Rewind.CROP)
    drafting(reader, tokenizer, 1).generate([truth], Writing(FREE, max_new_tokens=most))
    assert reader.calls <= (100 if counted else 20)


@pytest.mark.parametrize("worth", [0, 5, 40])
def test_a_guess_is_no_longer_than_pays(worth: int) -> None:
    """Also where there is room for thousands of tokens: under a constraint each of them is looked at."""
    tokenizer, (truth,) = prepared("cwm", 1)
    cursor = cursor_of(truth, Writing(FREE, max_new_tokens=600), tokenizer, None)
    read, drafter = [*cursor.prompt()], Drafter(cursor)
    lengths = []
    for turn in range(60):
        lengths.append(len(drafter.guess(read, 16_000, lambda source: worth).tokens) if turn else 0)
        wrong = next(token for token in (truth.ids[-3], truth.ids[-4]) if turn or token != truth.ids[len(read)])
        token = cursor.next_token(wrong, 0.0)
        assert token is not None
        read.append(token)
    assert max(lengths) == worth


def test_a_guess_at_a_loop_ends_where_the_row_may_write_no_more() -> None:
    """Whatever it seems worth: of a model that runs away every row would read several times what it may write."""
    tokenizer, (truth,) = prepared("cwm", 1)
    most = 50
    cursor = cursor_of(truth, Writing(FREE, max_new_tokens=most), tokenizer, None)
    read, drafter = [*cursor.prompt()], Drafter(cursor)
    around = next(token for token in truth.ids if token != truth.ids[len(read)] and not tokenizer.is_special(token))
    for written in range(1, most):
        token = cursor.next_token(around, 0.0)
        assert token is not None
        read.append(token)
        guess = drafter.guess(read, 16_000, lambda source: 16_000)
        assert len(guess.tokens) <= most - written or guess.source is not Source.COPY
    assert guess.source is Source.COPY
    assert guess.tokens == [around]


class Near(Scripted):
    """A model whose likeliest tokens are nearer than rounding at one place, where reading by chunks says another than a step does."""

    def __init__(self, truth: Encoded, place: int, vocabulary: int, rewind: Rewind) -> None:
        super().__init__(lambda read: (*truth.ids, 0)[len(read)], vocabulary, rewind)
        self.place = place
        self.ids = truth.ids

    def extend(self, chunks: Mapping[int, Chunk]) -> dict[int, torch.Tensor]:
        found = super().extend(chunks)
        for row, chunk in chunks.items():
            first = self.held(row) + len(chunk.tokens) - chunk.guesses
            if len(chunk.tokens) > 1 and 0 <= self.place - first <= chunk.guesses:
                found[row][self.place - first, self.ids[self.place] - 1] = 9.0 + 1e-6
        return found

    def logits(self, read: list[int]) -> torch.Tensor:
        logits = super().logits(read)
        if len(read) == self.place:
            logits[self.ids[self.place] - 1] = 9.0 - 1e-6
        return logits


@pytest.mark.parametrize("rewind", Rewind)
def test_a_near_tie_is_decided_by_a_step_of_one_token_and_counted(rewind: Rewind) -> None:
    tokenizer, (truth,) = prepared("repl", 1)
    start = truth.roles.count(int(Role.CONTEXT))
    for place in range(start + 1, len(truth.ids) - 1, 7):
        reader = Near(truth, place, tokenizer.vocab_size, rewind)
        (written,) = drafting(reader, tokenizer, 1).generate([truth], Writing(FREE))
        assert written.runs[0].ids == list(truth.ids[start:])
        assert written.near_ties == 1


def assert_written_alike(
    model: Any, tokenizer: TraceTokenizer, truths: list[Encoded], writing: Writing, batch: int
) -> None:
    generator = LocalGenerator(ModelReader(model), tokenizer, batch)
    expected = LoopGenerator(generator.reader, tokenizer).generate(truths, writing)
    found = generator.generate(truths, writing)
    assert runs(found) == runs(expected)
    for one, other in zip(found, expected):
        for mine, true in zip(one.runs, other.runs):
            assert mine.logprobs == pytest.approx(true.logprobs, abs=1e-4)
            assert mine.margins == pytest.approx(true.margins, abs=2e-4)


@torch.no_grad()
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("mixer", MIXERS)
def test_every_mixer_writes_what_the_plain_loop_writes(mixer: str, batch: int) -> None:
    tokenizer, truths = prepared("symbolic", 4)
    model = small_model(mixer, tokenizer)
    for fed in (FREE, ACTION_FORCED, STATE_FORCED):
        assert_written_alike(model, tokenizer, truths, Writing(fed, True, 25), batch)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    "family",
    [name if name in ("gemma3_text", "mamba") else pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES],
)
@torch.no_grad()
def test_every_family_writes_what_the_plain_loop_writes(family: str, batch: int) -> None:
    tokenizer, truths = prepared("symbolic", 3)
    model = tiny_model(family, tokenizer.vocab_size)
    for fed in (FREE, ACTION_FORCED):
        assert_written_alike(model, tokenizer, truths, Writing(fed, True, 25), batch)


@torch.no_grad()
@pytest.mark.parametrize("family", ["gpt2", "opt"])
def test_rows_that_come_to_the_end_of_a_table_of_positions_are_cut_there(family: str) -> None:
    tokenizer, truths = prepared("symbolic", 4)
    longest = max(len(truth.ids) for truth in truths) + 2
    sizes = {"gpt2": {"n_positions": longest}, "opt": {"max_position_embeddings": longest}}
    model = tiny_model(family, tokenizer.vocab_size, **sizes[family])
    for batch in (1, 4):
        assert_written_alike(model, tokenizer, truths, Writing(FREE, True, 100), batch)


def trained(mixers: list[str], tokenizer: TraceTokenizer, truths: list[Encoded], steps: int) -> Any:
    """A model that has learnt these truths, but not to the last token."""
    from remedy.models.config import DecoderSettings
    from remedy.models.decoder import DecoderForCausalLM
    from remedy.models.decoder_config import DecoderConfig

    torch.manual_seed(0)
    settings = DecoderSettings.model_validate({"mixers": mixers, "hidden_size": 64, "num_hidden_layers": 2})
    model = DecoderForCausalLM(DecoderConfig.from_settings(settings, tokenizer.vocab_size))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    width = max(len(truth.ids) for truth in truths)
    ids = torch.tensor([[*truth.ids, *[0] * (width - len(truth.ids))] for truth in truths])
    labels = torch.tensor([[*truth.ids, *[-100] * (width - len(truth.ids))] for truth in truths])
    for _ in range(steps):
        model(ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


@pytest.mark.slow
@pytest.mark.parametrize("mixers", [["attention"], ["gated_deltanet"], ["attention", "deltanet"]], ids="+".join)
@pytest.mark.parametrize("form", ["repl", "symbolic"])
def test_trained_models_write_the_same_in_a_fraction_of_the_calls(form: str, mixers: list[str]) -> None:
    tokenizer, truths = prepared(form, 6)
    model = trained(mixers, tokenizer, truths, 100)
    for fed in (FREE, ACTION_FORCED):
        for batch in (1, 6):
            assert_written_alike(model, tokenizer, truths, Writing(fed, form == "symbolic", 200), batch)
    generator = LocalGenerator(ModelReader(model), tokenizer, 1)
    keeper = generator.reader.keeper
    assert generator.report()
    calls = [keeper.calls]
    LoopGenerator(generator.reader, tokenizer, 1).generate(truths, Writing(ACTION_FORCED, form == "symbolic", 200))
    calls.append(keeper.calls)
    generator.generate(truths, Writing(ACTION_FORCED, form == "symbolic", 200))
    calls.append(keeper.calls)
    assert 3 * (calls[2] - calls[1]) < calls[1] - calls[0]


def test_a_reader_whose_steps_depart_is_read_by_the_loop() -> None:
    tokenizer, truths = prepared("repl", 2)
    reader = Scripted(erring(truths, tokenizer.vocab_size, 0, 0.1, 2), tokenizer.vocab_size, Rewind.CROP)
    reader.steady = False
    expected = LoopGenerator(reader, tokenizer).generate(truths, Writing(FREE, False, 60))  # type: ignore[arg-type]
    assert runs(drafting(reader, tokenizer, 2).generate(truths, Writing(FREE, False, 60))) == runs(expected)
    assert not reader.open


def test_no_more_rows_are_read_together_than_memory_has_room_for() -> None:
    tokenizer, truths = prepared("repl", 6)
    lengths = sorted(len(truth.ids) for truth in truths)
    model = erring(truths, tokenizer.vocab_size, 0, 0.05, 2)
    for memory, most in ((math.inf, 6), (sum(lengths[:3]) + 3.0, 3), (0.0, 1)):
        reader = Scripted(model, tokenizer.vocab_size, Rewind.CROP)
        reader.memory, reader.pace = memory, Pace(10_000.0, 0.0)
        drafting(reader, tokenizer, 6).generate(truths, Writing(FREE))
        assert reader.together == most


def test_where_memory_runs_out_fewer_examples_are_written_at_a_time() -> None:
    tokenizer, truths = prepared("repl", 4)

    class Small(Scripted):
        def extend(self, chunks: Mapping[int, Chunk]) -> dict[int, torch.Tensor]:
            if len(chunks) > 1:
                raise torch.OutOfMemoryError("no room")
            return super().extend(chunks)

    model = erring(truths, tokenizer.vocab_size, 0, 0.05, 2)
    expected = LoopGenerator(Scripted(model, tokenizer.vocab_size, Rewind.CROP), tokenizer).generate(
        truths, Writing(FREE)
    )  # type: ignore[arg-type]
    small = Small(model, tokenizer.vocab_size, Rewind.CROP)
    small.pace = Pace(1000.0, 0.0)
    generator = drafting(small, tokenizer, 4)
    assert runs(generator.generate(truths, Writing(FREE))) == runs(expected)
    assert generator.batch_size == 1
    assert all(math.isfinite(logprob) for one in expected for run in one.runs for logprob in run.logprobs)
