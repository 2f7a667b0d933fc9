"""Examples, losses and scores are those that were recorded in `fixtures/behaviour.json` before the code was rearranged."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.examples import DataConfig
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.settings import build
from remedy.eval.config import EvalConfig
from remedy.eval.diagnostics import DIAGNOSTICS
from remedy.models.encoding import encoded_examples
from remedy.models.tokenizer import build_tokenizer
from remedy.models.tokenizer_backends import TOKENIZERS
from remedy.train.config import RunConfig
from remedy.train.run import train
from tests.eval.test_decoding import Reciter
from tests.fixtures.cases import DATA, DIAGNOSES, RUNS
from tests.fixtures.renames import to_old

KEPT = json.loads((Path(__file__).parent / "fixtures" / "behaviour.json").read_text(encoding="utf-8"))


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:24]


def as_kept(role: Role) -> Role:
    """The role when the fixtures were recorded: queries were actions then."""
    return Role.ACTION if role is Role.QUERY else role


@pytest.mark.parametrize("name", DATA)
def test_examples_are_the_same_to_the_byte(name: str) -> None:
    settings, tokens = DATA[name]
    data = build(DataConfig, to_old(settings), name)
    tokenizer = build_tokenizer(TOKENIZERS[tokens["kind"]].model_validate(tokens), data)
    split = "all" if data.task.kind == "programs" else "test"
    made = encoded_examples(data, tokenizer, split, range(5))
    for kept, (example, encoded) in zip(KEPT["examples"][name], made, strict=True):
        spans = [
            [as_kept(s.role).label, s.piece.value, True, s.frame, s.string]
            if isinstance(s.piece, Special)
            else [as_kept(s.role).label, s.piece, False, s.frame, s.string]
            for s in example.spans
        ]
        assert {
            "spans": digest(spans),
            "tokens": digest([encoded.ids, [as_kept(Role(role)) for role in encoded.roles], encoded.frames]),
            "count": len(encoded.ids),
            "answer": example.answer[:80],
            "outcome": example.outcome,
        } == kept


@pytest.mark.parametrize("name", RUNS)
def test_losses_are_the_same(name: str, tmp_path: Path) -> None:
    config = build(RunConfig, {**to_old(RUNS[name]), "output": str(tmp_path)}, name)
    train(config)
    losses = [json.loads(line)["loss"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    # To the bit on the machine that recorded them; another processor may round otherwise.
    assert losses == pytest.approx(KEPT["losses"][name], rel=1e-4)


@pytest.mark.parametrize("name", DIAGNOSES)
def test_scores_are_the_same(name: str) -> None:
    settings, tokens, diagnostic = DIAGNOSES[name]
    data = build(DataConfig, to_old(settings), name)
    tokenizer = build_tokenizer(TOKENIZERS[tokens["kind"]].model_validate(tokens), data)
    config = build(EvalConfig, {"diagnostics": [to_old(diagnostic)], "budget": 100_000}, name)
    chosen = DIAGNOSTICS[config.diagnostics[0].kind]
    for condition, kept in zip(
        chosen.conditions(config.diagnostics[0], data, config), KEPT["scores"][name], strict=True
    ):
        made = encoded_examples(condition.data, tokenizer, condition.split, range(condition.examples))
        batch, truths = [example for example, _ in made], [truth for _, truth in made]
        decoded = [place for place, example in enumerate(batch) if example.outcome == "ok"]
        mistakes = {}
        for row, place in enumerate(decoded):
            written = [at for at, role in enumerate(truths[place].roles) if role != Role.CONTEXT]
            if place % 2 == 0:
                mistakes[row] = written[(place * 37) % len(written)]
        wrong = next(token for token in range(tokenizer.vocab_size - 1, 0, -1) if not tokenizer.is_special(token)) - 3
        reciter = Reciter([truths[place] for place in decoded], tokenizer.vocab_size, mistakes, wrong)
        found = chosen.judge(reciter, tokenizer, batch, truths, condition, config)
        shown = [{k: v for k, v in row.items() if k not in ("python", "isolation")} for row in found]
        shown = [row | {"departure_role": row["departure_role"].replace("query", "action")} for row in shown]
        assert json.loads(json.dumps(shown)) == kept["scores"]
