"""What a model wrote is kept: every record leads to its tokens, each with its frame and role."""

from collections import Counter
from itertools import cycle

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Role
from remedy.eval.config import EvalConfig
from remedy.eval.decoding.forcings import fed_roles
from remedy.eval.generators.loop import LoopGenerator
from remedy.eval.scoring import score_batch
from remedy.models.encoding import encoded_examples
from remedy.settings import build
from tests.eval.decoding.test_decoding import FORMS, Reciter
from tests.tiny_models import tokenizer_for


@pytest.mark.parametrize(
    ("form", "forcing"), [*((form, "free") for form in FORMS), *zip(FORMS, cycle(["action_forced", "teacher_forced"]))]
)
def test_a_frame_has_the_tokens_that_the_model_wrote_of_it(form: str, forcing: str) -> None:
    data = DataConfig.model_validate(FORMS[form])
    tokenizer = tokenizer_for(data)
    diagnostic = {"kind": "programs", "forcing": [forcing], "answer_only": [False], "examples": 3}
    (condition,) = build(EvalConfig, {"diagnostics": [diagnostic]}, "x").diagnostics[0].conditions(data, "test")
    batch = encoded_examples(data, tokenizer, "test", range(3))
    truths = [truth for _, truth in batch]
    results = score_batch(
        LoopGenerator(Reciter(truths, tokenizer.vocab_size), tokenizer), tokenizer, batch, condition, 10_000
    )
    fed = fed_roles(forcing) if forcing != "teacher_forced" else {Role.CONTEXT}
    for (example, truth), result in zip(batch, results):
        numbers = [frame.number for frame in example.frames]
        places = {number: place for place, number in enumerate(numbers)}
        expected = Counter(
            places.get(int(frame), len(numbers)) for frame, role in zip(truth.frames, truth.roles) if role not in fed
        )
        kept = result.generation
        assert Counter(kept["places"]) == expected
        own = [Role(role).label for role in truth.roles if role not in fed]
        # A line of a session is of one role here, its prompt and end included.
        said = [
            (is_, true) for is_, true in zip(kept["roles"], own, strict=True) if form != "repl" or true != "structure"
        ]
        assert [is_ for is_, _ in said] == [true for _, true in said]
        assert result.score["right"] is (None if forcing == "teacher_forced" else True)
