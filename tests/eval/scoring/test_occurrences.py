"""A wrong next line that follows another occurrence of the line before it is told from any other wrong line."""

import pytest

from remedy.data_gen.config import DataConfig
from remedy.eval.decoding.cursor import Generated
from remedy.eval.scoring.common import Decoded, followed_another
from remedy.eval.scoring.frames import score_frames
from remedy.eval.scoring.tokens import score_tokens
from remedy.models.encoding import encoded_examples
from remedy.models.tokenizer import build_tokenizer
from remedy.models.tokenizer_backends import TOKENIZERS


@pytest.mark.parametrize(
    ("place", "written", "expected"),
    [(3, "b", True), (3, "c", False), (3, "a", False), (1, "c", True), (0, "b", False), (9, "b", False)],
)
def test_it_followed_another_occurrence(place: int, written: str, expected: bool) -> None:
    assert followed_another(["a", "b", "a", "c"], place, written) == expected


def test_the_column_of_a_session() -> None:
    task = {"kind": "permutation", "n": 3, "moves": "swaps", "length": 12}
    for form, backend in (("repl", "chars"), ("symbolic", "symbols")):
        data = DataConfig.model_validate({"task": task, "format": form})
        tokenizer = build_tokenizer(TOKENIZERS[backend].model_validate({"kind": backend}), data)
        ((example, truth),) = encoded_examples(data, tokenizer, "test", [3])
        lines = [frame.source for frame in example.frames if frame.source]
        place, wrong = next(
            (at, other)
            for at in range(1, len(lines))
            for other in sorted(set(lines))
            if other != lines[at] and followed_another(lines, at, other)
        )
        at = [p for p, (role, of) in enumerate(zip(truth.roles, truth.frames)) if role == 2 and of == place]
        text = wrong.rstrip("\n") if form == "symbolic" else f">>> {wrong}".rstrip("\n")
        ids = tokenizer.encode([example.spans[0]._replace(piece=text)]).ids
        run = Generated(at[0], at[-1] + 1, ids, [0.0] * len(ids), True)
        fed = frozenset(set(range(6)) - {2})
        scorer = score_tokens if form == "symbolic" else score_frames
        found = scorer(Decoded(example, truth, [run], fed, data), tokenizer)
        assert found["first_error_role"] == "action"
        assert found["followed_another"]
