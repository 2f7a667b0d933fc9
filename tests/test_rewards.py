"""Rewards by the interpreter, in the form that TRL's trainers call."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Role
from remedy.rewards import TraceReward, dataset
from remedy.settings import UserError, build
from tests.tiny_cwm import write_tiny_cwm

DATA = build(DataConfig, {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": 2}}, "test")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(write_tiny_cwm(tmp_path_factory.mktemp("tiny")))


def test_a_trace_is_paid_to_its_first_wrong_frame(tokenizer: PreTrainedTokenizerBase) -> None:
    (row,) = dataset(DATA, 1)
    true = row["trace"]
    frames = true.split("<|frame_sep|>")
    wrong = "<|frame_sep|>".join([*frames[:3], frames[3].replace('"', "'", 1), *frames[4:]])
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in (true, wrong, true[: len(true) // 2])]
    count = len(frames) - 1
    prefix, form = TraceReward(tokenizer), TraceReward(tokenizer, parts={"format": 1.0})
    assert prefix(completion_ids=ids[:2], trace=[true] * 2, answer_frames=[[-1]] * 2, prompts=[""] * 2) == [
        1.0,
        pytest.approx(3 / count),
    ]
    assert form(completion_ids=ids, trace=[true] * 3, answer_frames=[[-1]] * 3) == [1.0, 0.0, 0.0]
    assert TraceReward(tokenizer, parts={"answer": 1.0, "format": 3.0})(ids[:1], [true], [[-1]]) == [1.0]
    assert prefix(completion_ids=[ids[0], ids[0]], trace=[true, None], answer_frames=[[-1]] * 2) == [1.0, None]
    assert TraceReward(tokenizer, parts={"answer": 1.0})(ids[:1], [true], [[]]) == [0.0]  # of no place, none is right
    more = [*ids[0][:-1], *ids[0][-4:]]  # a second end of a frame
    assert TraceReward(tokenizer, parts={"whole": 1.0})([ids[0], ids[1], more], [true] * 3, [[-1]] * 3) == [
        1.0,
        0.0,
        0.0,
    ]
    assert prefix.score(ids[2], true, [-1]).first_wrong is Role.STRUCTURE
    endless = [ids[0][:-1], more, [*ids[0][:-1], *ids[0]]]
    assert prefix(endless, [true] * 3, [[-1]] * 3) == [pytest.approx(count / (count + 1))] * 3  # its end is one more


def test_where_nothing_is_returned_the_last_state_is_the_answer(tokenizer: PreTrainedTokenizerBase) -> None:
    (row,) = dataset(DATA.changed({"task.answer": "none"}), 1)
    true = row["trace"]
    states = [at for at in range(len(true)) if true.startswith('{"a"', at)]
    wrong = true[: states[-1]] + true[states[-1] :].replace('"a": "', '"a": "1', 1)
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in (true, wrong)]
    reward = TraceReward(tokenizer, parts={"answer": 1.0})
    assert reward(ids, [true] * 2, [row["answer_frames"]] * 2) == [1.0, 0.0]


def test_what_follows_the_end_of_text_is_padding(tokenizer: PreTrainedTokenizerBase) -> None:
    (row,) = dataset(DATA, 1)
    ids = tokenizer(row["trace"], add_special_tokens=False)["input_ids"]
    assert TraceReward(tokenizer)(
        [[*ids, tokenizer.pad_token_id, *ids[:3]]], [row["trace"]], [row["answer_frames"]]
    ) == [1.0]


@pytest.mark.parametrize(
    ("format", "parts", "message"),
    [
        ("cwm", {"answer": float("nan")}, "must be above 0 and finite"),
        ("cwm", {"anser": 1.0}, "did you mean 'answer'"),
        ("cwm", {"answer": 0.0}, "must be above 0"),
        ("symbolic", None, "no text"),
    ],
)
def test_wrong_rewards_are_refused(
    tokenizer: PreTrainedTokenizerBase, format: str, parts: dict | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        TraceReward(tokenizer, format, parts)


def test_what_has_no_trace_as_text_is_left_out(tmp_path: Path) -> None:
    codes = [f"def f(x):\n    return x + {text!r}\n" for text in ("<|frame_sep|>", "<frame_sep>")]
    rows = [{"id": f"{at}", "split": "train", "code": code, "input": "'a'"} for at, code in enumerate(codes)]
    (tmp_path / "programs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    data = build(DataConfig, {"task": {"kind": "programs", "path": str(tmp_path / "programs.jsonl")}}, "test")
    assert [row["answer"] for row in dataset(data, 2)] == ["'a<frame_sep>'"]
    with pytest.raises(UserError, match="leaves no trace to reward"):
        dataset(DATA.changed({"reveal.answer_only": True}), 1)
