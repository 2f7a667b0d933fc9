"""Programs, and places in their traces, for tests of what is written under a constraint."""

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example
from remedy.eval.config import EvalConfig
from remedy.eval.decoding.constraints import starts_of
from remedy.eval.decoding.cursor import Generated
from remedy.eval.decoding.forcings import FREE
from remedy.eval.decoding.protocol import ConstraintState
from remedy.eval.generators.base import DecodingOptions, ModelOutput
from remedy.models.chunks import Kind
from remedy.models.encoding import encoded_examples
from remedy.models.tokenizer import Encoded, TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends.characters import CharacterSettings
from remedy.settings import build
from tests.eval.scripted import Next, Scripted, erring

CHARACTERS = build_tokenizer(CharacterSettings())
S3 = {"task": {"kind": "permutation", "n": 3, "length": [2, 6]}, "format": "cwm"}
STRINGS = {"task": {"kind": "composition", "depth": 2, "functions": ["mirror_str", "repeat_str", "remove_vowels"]}}
RAISING = {"task": {"kind": "programs", "path": "tests/fixtures/raising.jsonl", "tracer": {"isolation": "trusted"}}}
CONSTRAINED = DecodingOptions(FREE, max_new_tokens=10_000, constraint="control_flow")


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
    def starts(self) -> list[ConstraintState]:
        return starts_of("control_flow", self.examples, self.data, self.tokenizer)

    def reader(self, following: Next, kind: Kind = Kind.CROP) -> Any:
        return Noisy(following, self.tokenizer.vocab_size, kind)

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


def branching(folder: Path) -> Prepared:
    """`LOOPS`, as examples."""
    results = zip(LOOPS, ("1", "2"), ("3", "[0, 1]"))
    rows = [{"code": code, "input": given, "output": result} for code, given, result in results]
    return Prepared(programs(folder, *rows), 2, split="all")


def assert_alike(found: Sequence[ModelOutput], expected: Sequence[ModelOutput]) -> None:
    """The same tokens, and the same was cut, but for rounding."""
    for one, other in zip(found, expected, strict=True):
        (mine,), (true,) = one.runs, other.runs
        assert (mine.ids, mine.complete) == (true.ids, true.complete)
        assert [origin._replace(cut=0) for origin in mine.origins] == [
            origin._replace(cut=0) for origin in true.origins
        ]
        assert [origin.cut for origin in mine.origins] == pytest.approx(
            [origin.cut for origin in true.origins], abs=1e-4
        )
        assert mine.logprobs == pytest.approx(true.logprobs, abs=1e-4)


def assert_held(run: Generated, start: ConstraintState, tokenizer: TraceTokenizer, most: int) -> None:
    """It was written along the constraint, what was certain was fed, and with that it is no longer than a free one may be."""
    place: ConstraintState | None = start
    for token, logprob, origin in zip(run.ids, run.logprobs, run.origins, strict=True):
        assert place is not None
        allowed = place.allowed()
        assert origin.certain == (allowed.certain is not None)
        assert origin.choices == (0 if origin.certain or allowed.text else len(allowed.ids))
        assert (logprob == 0) if origin.certain else (logprob <= 0)
        assert 0 <= origin.cut <= 1
        place = place.after(token)
    assert place is not None
    assert place.done == run.complete
    assert len(run.ids) <= most


def condition(data: dict[str, Any], forcing: str = "control_flow") -> Any:
    diagnostic = {"kind": "programs", "forcing": [forcing], "answer_only": [False]}
    (found,) = (
        build(EvalConfig, {"diagnostics": [diagnostic]}, "x")
        .diagnostics[0]
        .conditions(DataConfig.model_validate(data), "test")
    )
    return found
