"""What is said of traces that were written under control flow, and what cannot be held."""

from typing import Any

import pytest

from remedy.data_gen.roles import Role, Special
from remedy.eval.config import EvalConfig
from remedy.eval.decoding.cursor import Generated
from remedy.eval.decoding.forcings import FREE
from remedy.eval.evaluate import run_condition
from remedy.eval.scoring.common import DecodedExample
from remedy.eval.scoring.frames import score_frames
from remedy.settings import build
from tests.eval.constrained_runs import CHARACTERS, Prepared, condition
from tests.eval.scripted import drafting


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
        for row, kept in zip(ran.rows, ran.generations):
            assert row["right"] is not wrong
            assert row["failure"] == ("wrong return" if wrong else "")
            assert row["action_exact"] == 1.0
            assert row["written_tokens"] + row["certain_tokens"] == len(kept["ids"]) == len(kept["certain"])
            assert row["certain_tokens"] == sum(kept["certain"]) > 0
            assert row["masked_tokens"] > 0
            assert row["cut_mass"] == pytest.approx(sum(kept["cut"]))


@pytest.mark.parametrize(("format", "first"), [("cwm", 1), ("cwm_numbered", 1), ("cwm_numbered", 40)])
def test_a_wrong_action_is_told_by_what_the_program_allows(loops: Prepared, format: str, first: int) -> None:
    """After `if n == 1:` its body may follow and the line after it, and no other."""
    data = {**loops.data.model_dump(), "format": format, "first_line": first}
    made = Prepared(data, 1, split="all")
    (example,), (truth,) = made.examples, made.truths
    place = next(at for at, frame in enumerate(example.frames) if frame.source.endswith("            n += 1\n"))
    number, start = example.frames[place].number, list(truth.roles).count(int(Role.CONTEXT))
    action = [
        at for at, (of, role) in enumerate(zip(truth.frames, truth.roles)) if of == number and role == Role.ACTION
    ]
    numbers = format == "cwm_numbered"
    texts = {
        (f"{first + 4} " if numbers else "") + "        n += 1\n": "allowed by the control flow",
        (f"{first + 5} " if numbers else "") + "    return n\n": "outside the control flow",
        "        n += 2\n": "outside the control flow",
    }
    for text, expected in texts.items():
        ids = [*truth.ids[: action[0]], *CHARACTERS.backend.text_ids(text), *truth.ids[action[-1] + 1 :]]
        run = Generated(start, len(truth.ids), ids[start:], [0.0] * (len(ids) - start), True)
        score = score_frames(DecodedExample(example, truth, [run], FREE, made.data), CHARACTERS)
        assert (score["first_error_role"], score["wrong_action"]) == ("action", expected), text
    ended = [*truth.ids[: action[0] - 1], CHARACTERS.eos_id]
    while not CHARACTERS.is_special(ended[-2]) or ended[-2] != CHARACTERS.special_ids[Special.FRAME_SEP]:
        del ended[-2]
    run = Generated(start, len(truth.ids), ended[start:], [0.0] * (len(ended) - start), True)
    assert score_frames(DecodedExample(example, truth, [run], FREE, made.data), CHARACTERS)["wrong_action"] == expected
