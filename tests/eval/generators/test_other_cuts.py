"""Under teacher forcing a right text counts in whatever tokens the model writes it, alike with local and served models."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from torch import Tensor

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Role, Span, Special
from remedy.eval.decoding.forcings import TEACHER_FORCED
from remedy.eval.generators.backend import Backend
from remedy.eval.generators.base import DecodingOptions, ModelOutput, make_requests
from remedy.eval.generators.loop import LoopGenerator
from remedy.eval.generators.other_cuts import other_cuts, write_on
from remedy.eval.generators.scores import Scores
from remedy.eval.generators.served import ServedGenerator
from remedy.eval.generators.server import Server
from remedy.models.cache import Footprint
from remedy.models.encoding import encoded_examples
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer
from tests.contract_server import ContractServer
from tests.eval.generators.serving import backend_for
from tests.mock_models import Known, Mock
from tests.tiny_models import bpe

DATA = DataConfig.model_validate({"task": {"kind": "composition", "depth": 1}})
PREDICTED = frozenset(Role) - {Role.CONTEXT}
OPTIONS = DecodingOptions(TEACHER_FORCED, False, 500, PREDICTED)


def merged_token(role: Role, tokenizer: TraceTokenizer) -> tuple[Encoded, int]:
    """An example, and the position of a token of this role with several letters."""
    return next(
        (truth, position)
        for _, truth in encoded_examples(DATA, tokenizer, "test", range(20))
        for position, (token, of) in enumerate(zip(truth.ids, truth.roles))
        if of == role and len(tokenizer.decode([token])) > 1
    )


def written(truth: Encoded, position: int, after: list[int], tokenizer: TraceTokenizer, served: bool) -> ModelOutput:
    """What a model predicts that is right but at `position`, where it writes on with `after`, and then as in truth."""
    begins = [*truth.ids[:position], after[0]]
    told = [
        Known([truth.ids[0]], [*truth.ids[:position], after[0], *truth.ids[position + 1 :]]),
        Known(begins, [*truth.ids[:position], *after, *truth.ids[position + 1 :]]),
    ]
    model = Mock(told, tokenizer.vocab_size)
    if not served:
        return LoopGenerator(ModelReader(model), tokenizer).generate(make_requests([truth]), OPTIONS)[0]
    with ContractServer(model, tokenizer).running() as url:
        generator = ServedGenerator(Backend.model_validate(backend_for(url)), tokenizer)
        return generator.generate(make_requests([truth]), OPTIONS)[0]


@pytest.mark.parametrize("served", [False, True], ids=["local", "served"])
@pytest.mark.parametrize("role", [Role.STATE, Role.VALUE, Role.ACTION], ids=lambda role: role.label)
def test_a_text_in_other_tokens_is_right_and_another_text_is_not(role: Role, served: bool) -> None:
    tokenizer = bpe()
    truth, position = merged_token(role, tokenizer)
    letters = [tokenizer.string_ids(letter)[0] for letter in tokenizer.decode([truth.ids[position]])]
    context = truth.roles.count(int(Role.CONTEXT))
    [run] = written(truth, position, letters, tokenizer, served).runs
    assert run.ids == truth.ids[context:]
    unknown = {run.start + offset for offset, logprob in enumerate(run.logprobs) if math.isnan(logprob)}
    part = (truth.frames[position], truth.roles[position])
    assert unknown == {p for p in range(position, len(truth.ids)) if (truth.frames[p], truth.roles[p]) == part}

    other = next(token for token in tokenizer.string_ids("~") if token != letters[1])
    [run] = written(truth, position, [letters[0], other], tokenizer, served).runs
    assert run.ids == [*truth.ids[context:position], letters[0], *truth.ids[position + 1 :]]
    assert not any(map(math.isnan, run.logprobs))


def in_state(text: str, tokenizer: TraceTokenizer) -> Encoded:
    return tokenizer.encode([Span(Role.STRUCTURE, Special.LINE_SEP, 0), Span(Role.STATE, text, 0)])


def test_another_character_is_wrong_where_its_last_byte_alone_differs() -> None:
    """Without the bytes before, the last bytes of both decode alike."""
    tokenizer = bpe()
    truth, other = (in_state(text, tokenizer) for text in ("a\N{EURO SIGN}b", "a\N{KIP SIGN}b"))
    assert sum(true != token for true, token in zip(truth.ids, other.ids)) == 1
    assert not other_cuts(truth, OPTIONS, other.ids, tokenizer)


def test_a_special_token_is_not_the_text_that_spells_it() -> None:
    tokenizer = bpe()
    truth = in_state(Special.FRAME_SEP.value, tokenizer)
    sign = tokenizer.special_ids[Special.FRAME_SEP]
    assert not other_cuts(truth, OPTIONS, [truth.ids[0], sign, *truth.ids[2:]], tokenizer)


def test_no_more_parts_are_written_together_than_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = bpe()
    truth, position = merged_token(Role.STATE, tokenizer)
    letter = tokenizer.string_ids(tokenizer.decode([truth.ids[position]])[0])[0]
    ids = [*truth.ids[:position], letter, *truth.ids[position + 1 :]]
    cuts = [cut for _ in range(5) for cut in other_cuts(truth, OPTIONS, ids, tokenizer)]
    reader = ModelReader(Mock([Known([truth.ids[0]], ids)], tokenizer.vocab_size))
    together: list[int] = []
    prefill = reader.prefill

    def noted(prompts: Sequence[Sequence[int]]) -> Tensor:
        together.append(len(prompts))
        return prefill(prompts)

    monkeypatch.setattr(reader, "prefill", noted)
    monkeypatch.setattr(reader, "available", lambda: 2.5 * (position + 1 + cuts[0].most))
    monkeypatch.setattr(ModelReader, "footprint", Footprint(token=1.0))
    write_on(reader, [(cut, ids[: position + 1]) for cut in cuts], 100)
    assert together == [2, 2, 1]
    assert all(cut.right is False for cut in cuts)


def test_a_server_writes_a_text_in_pieces_up_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, Sequence[int]]] = []
    write = Server.write

    async def noted(server: Server, read: Sequence[int], most: int, stops: Sequence[int], grammar: str = "") -> Scores:
        asked.append((most, stops))
        return await write(server, read, most, stops, grammar)

    monkeypatch.setattr(Server, "write", noted)
    monkeypatch.setattr("remedy.eval.generators.served.PIECE", 1)
    tokenizer = bpe()
    truth, position = merged_token(Role.STATE, tokenizer)
    letters = [tokenizer.string_ids(letter)[0] for letter in tokenizer.decode([truth.ids[position]])]
    [run] = written(truth, position, letters, tokenizer, served=True).runs
    assert run.ids == truth.ids[truth.roles.count(int(Role.CONTEXT)) :]
    assert {most for most, stops in asked if tokenizer.special_ids[Special.FRAME_SEP] in stops} == {1}
