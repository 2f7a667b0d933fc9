"""What a model wrote is kept: every record leads to its text, its tokens, and how sure the model was of every frame."""

from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Role
from remedy.eval.checkpoint import Subject
from remedy.eval.config import EvalConfig
from remedy.eval.decoding.forcings import fed_roles
from remedy.eval.evaluate import evaluate
from remedy.eval.generators import LoopGenerator
from remedy.eval.records.generations import read_generations
from remedy.eval.records.schema import read_records
from remedy.eval.scoring import score_batch
from remedy.models.encoding import encoded_examples
from remedy.models.tokenizer import build_tokenizer
from remedy.models.tokenizer_backends import TOKENIZERS
from remedy.settings import build
from tests.eval.decoding.test_decoding import FORMS, Reciter
from tests.eval.test_evaluate import PERMUTATION, SETTINGS, model_for


def test_every_record_leads_to_what_the_model_wrote(tmp_path: Path) -> None:
    model, tokenizer = model_for(PERMUTATION, "symbols")
    evaluate(model, tokenizer, Subject(PERMUTATION), SETTINGS, tmp_path, "gru")
    for path in (tmp_path / "records").glob("*.parquet"):
        kept = read_generations(tmp_path / "generations" / path.name)
        for _, record in read_records(path).iterrows():
            assert record["condition"] == path.stem
            row = kept.loc[record["index"]]
            assert len(row["ids"]) == sum(row["run_lengths"]) == sum(row["frame_tokens"]) == record["written_tokens"]
            assert row["text"].endswith("<|end_of_text|>") or record["truncated"] or not record["valid_format"]
            assert all(least <= whole / n <= 0 for least, whole, n in frames(row))


def frames(row: pd.Series) -> list[tuple[float, float, int]]:
    return list(zip(row["frame_logprob_min"], row["frame_logprob_sum"], row["frame_tokens"]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("forcing", ["free", "action_forced", "teacher_forced"])
def test_a_frame_has_the_tokens_that_the_model_wrote_of_it(form: str, forcing: str) -> None:
    data = DataConfig.model_validate(FORMS[form])
    kind = "symbols" if form == "symbolic" else "chars"
    tokenizer = build_tokenizer(TOKENIZERS[kind].model_validate({"kind": kind}), data)
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
        assert dict(zip(kept["frame_places"], kept["frame_tokens"])) == expected
        assert Counter(kept["places"]) == expected
        own = [Role(role).label for role in truth.roles if role not in fed]
        # A line of a session is of one role here, its prompt and end included.
        said = [
            (is_, true) for is_, true in zip(kept["roles"], own, strict=True) if form != "repl" or true != "structure"
        ]
        assert [is_ for is_, _ in said] == [true for _, true in said]
        assert result.score["right"] is (None if forcing == "teacher_forced" else True)
