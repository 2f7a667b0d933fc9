"""A served model's records are the local one's to the token, in as few requests."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.roles import Role
from remedy.eval.decoding.forcings import fed_roles
from remedy.eval.generators.backend import Backend
from remedy.eval.generators.base import DecodingOptions, make_requests
from remedy.eval.generators.completions import Question, ask, read
from remedy.eval.generators.loop import LoopGenerator
from remedy.eval.generators.served import ServedGenerator
from remedy.eval.records.folder import UNFINISHED
from remedy.models.encoding import encoded_examples
from remedy.models.loading import load_checkpoint
from remedy.models.reader import ModelReader
from remedy.settings import apply_changes
from tests.contract_server import ContractServer
from tests.eval.generators.serving import (
    CWM,
    FORCINGS,
    SYMBOLIC,
    backend_for,
    evaluated,
    model_for,
    settings_for,
    short_pauses,  # noqa: F401 (a fixture)
)
from tests.evaluations import assert_the_same
from tests.launch.in_process import Ended, remedy
from tests.mock_models import Known, Mock, mistaken
from tests.tiny_cwm import write_tiny_cwm
from tests.tiny_models import tokenizer_for


def test_records_are_the_local_ones_under_every_forcing(tmp_path: Path) -> None:
    """Of a model that is wrong nearly everywhere, in a format whose runs have as many tokens as the true ones."""
    model, tokenizer = model_for(SYMBOLIC)
    forcings = [one for one in FORCINGS if one != "line_forced"]
    local = evaluated(model, tokenizer, settings_for(forcings), tmp_path / "local")
    server = ContractServer(model, tokenizer)
    with server.running() as url:
        served = evaluated(model, tokenizer, settings_for(forcings, backend_for(url)), tmp_path / "served")
    assert_the_same(local, served)
    assert 1 < server.most_at_once <= 4
    about = json.loads((served / "evaluation.json").read_text())["backend"]
    assert about == {
        "server": "vllm",
        "version": "0.0.contract",
        "model": "tiny",
        "longest": 4096,
        "batch_invariant": "unknown",
    }
    assert not (served / UNFINISHED).exists()


@pytest.mark.parametrize("wrong", [frozenset(), frozenset({Role.STATE}), frozenset({Role.ACTION})], ids=str)
def test_what_a_model_gets_right_is_asked_for_once(wrong: frozenset[Role]) -> None:
    """Models that are right everywhere, or wrong in every state or action, in frames of text."""
    tokenizer = tokenizer_for(CWM)
    batch = encoded_examples(CWM, tokenizer, "test", range(3))
    truths = [truth for _, truth in batch]
    known = [
        Known(truth.ids[: truth.roles.count(int(Role.CONTEXT))], mistaken(truth, wrong, False, tokenizer))
        for truth in truths
    ]
    model = Mock(known, tokenizer.vocab_size)
    server = ContractServer(model, tokenizer)
    with server.running() as url:
        served = ServedGenerator(Backend.model_validate(backend_for(url)), tokenizer)
        for forcing in FORCINGS if not wrong else ("free", "action_forced"):
            fed = fed_roles(tuple(forcing) if isinstance(forcing, list) else forcing)
            asked = DecodingOptions(fed, False, 500, frozenset(Role) - {Role.CONTEXT})
            server.contents.clear()
            local = LoopGenerator(ModelReader(model), tokenizer).generate(make_requests(truths), asked)
            for mine, other in zip(served.generate(make_requests(truths), asked), local):
                assert [run[:3] for run in mine.runs] == [run[:3] for run in other.runs]
                assert [run.complete for run in mine.runs] == [run.complete for run in other.runs]
            scored = sum("prompt_logprobs" in content for content in server.contents)
            if not wrong & (frozenset(Role) - fed) or forcing == "teacher_forced":
                assert len(server.contents) == scored == len(truths)
            if forcing == "free" and wrong:
                assert scored == len(truths)


def test_the_command_evaluates_a_hub_model_of_which_only_the_server_has_weights(tmp_path: Path) -> None:
    """A code world model's architecture: the folder has configuration and tokenizer alone. Mistakes are one line and status 2."""
    full = write_tiny_cwm(tmp_path / "full", layers=2)
    bare = tmp_path / "bare"
    shutil.copytree(full, bare, ignore=shutil.ignore_patterns("*.safetensors"))
    config = tmp_path / "any.yaml"
    task = {"kind": "permutation", "n": 3, "moves": "swaps", "length": 1, "answer": "none"}
    settings = {
        "set": {"task": task, "format": "cwm"},
        "diagnostics": [{"kind": "permutation", "lengths": [1], "forcing": ["action_forced"], "examples": 2}],
    }
    config.write_text(json.dumps(settings))
    model, tokenizer = load_checkpoint(str(full))
    server = ContractServer(model, tokenizer, invariant=True)

    def command(*changes: str, checkpoint: Path = bare) -> Ended:
        return remedy(["evaluate", checkpoint, config, "--out", tmp_path / "out", *changes, "--name", "tiny"], 300)

    with server.running() as url:
        where = [f"backend.url={url}/v1", "backend.model=tiny"]
        done = command(*where, "batch_size=2")
        assert (done.status, done.errors) == (0, "")
        request = json.loads((tmp_path / "out" / "evaluation.json").read_text())
        assert request["backend"]["batch_invariant"] == "on"
        assert request["checkpoint"]["parameters"] == sum(one.numel() for one in model.parameters())
        assert request["checkpoint"]["weights"] == "served: tiny"
        assert "backend" not in request["evaluation"]
        assert url not in (tmp_path / "out" / "evaluation.json").read_text()
        local = remedy(["evaluate", full, config, "--out", tmp_path / "local", "--name", "tiny"], 300)
        assert local.status == 0
        assert_the_same(tmp_path / "local", tmp_path / "out")
        shown = remedy(["report", tmp_path / "out", "--out", tmp_path / "report"], 300)
        assert shown.status == 0, shown.errors
        assert "served by vllm 0.0.contract, batch-invariant" in (tmp_path / "report" / "report.md").read_text()
        (bare / "adapter_config.json").write_text("{}")
        refused = command(*where)
    assert refused.status == 2
    assert "holds adapters, and servers refuse those with rows of tokens: give `remedy merge" in refused.errors
    assert len(refused.errors.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://me:secret@here",
        "http://here?key=secret",
        "localhost:8000",
        "http://:80",
        "http://a\x07b",
        "http://xn--a",
    ],
)
def test_addresses_that_are_none_or_hold_a_key_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"must begin with http:// or https:// and name a host, .* without a password"):
        Backend.model_validate({"url": url, "model": "tiny"})


REPLIES = Path(__file__).parents[2] / "fixtures" / "vllm_replies.json"
"""Recorded by hand from vLLM 0.32.0 on a CPU; its requests are those that are sent today."""


def test_replies_of_vllm_itself_are_read() -> None:
    kept = json.loads(REPLIES.read_text())
    special, found = kept["special"], {}
    for name, one in kept["replies"].items():
        if one["status"] != 200:
            assert one["reply"]["error"]["message"]
            continue
        content = one["content"]
        limits = content["max_tokens"], content["stop_token_ids"]
        question = Question(content["prompt"], *limits, one["first"], content.get("allowed_token_ids", ()))
        assert ask("tiny", question) == content
        found[name] = read(one["reply"], question)
        predicted = found[name].predicted
        assert len(predicted.margins) == len(predicted.tokens)
        assert all(logprob < 0 <= margin for logprob, margin in zip(predicted.logprobs, predicted.margins))
    assert found["stopped by a special token"].predicted.tokens == [special]
    assert found["special tokens alone"].predicted.tokens == [special, special]
    assert len(found["score"].predicted.tokens) == len(kept["replies"]["score"]["content"]["prompt"]) - 2 + 1
    assert found["score"].names[special] == "<|frame_sep|>"


CHOICE = "choices.0"
SCORED = f"{CHOICE}.prompt_logprobs.4.7.logprob"


def _places(first: int, logprob: float) -> dict[str, Any]:
    return {str(first + place): {"logprob": logprob - place, "decoded_token": ""} for place in range(2)}


NEXT = f"{CHOICE}.logprobs.top_logprobs.0.token_id:287"


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (NEXT, float("nan"), "less than or equal"),
        (f"{CHOICE}.logprobs.top_logprobs.0", {"token_id:x": -1.0, "token_id:2": -2.0}, "Value error"),
        (NEXT, -1.0, "the server samples, or penalises repetition: a token is not the likeliest"),
        (SCORED, float("-inf"), "finite"),
        (
            SCORED,
            3.0,
            "logprob: Input should be less than or equal to 0.001",
        ),
        (SCORED, "-1", f"{SCORED}: Input should be a valid number"),
        (f"{CHOICE}.prompt_logprobs.4", _places(7, -30.0), "no log-probabilities of the token ids"),
        (f"{CHOICE}.prompt_logprobs.4", _places(8, -1.0), "no log-probabilities of the token ids"),
        (f"{CHOICE}.prompt_logprobs", None, "no log-probabilities of the token ids"),
        *((f"{CHOICE}.token_ids.0", value, f"{CHOICE}.token_ids.0: Input") for value in (1.5, True, -1)),
        (f"{CHOICE}.token_ids.0", 97, "no log-probabilities of the token ids"),
        (f"{CHOICE}.token_ids", [], "at least 1 item"),
        (f"{CHOICE}.token_ids", [2**31], "less than 2147483648"),
        (f"{CHOICE}.token_ids", [1, 1], "2 came back, of at most 1"),
        (f"{CHOICE}.token_ids", None, "valid list"),
        (f"{CHOICE}.logprobs", None, "logprobs.top_logprobs: Field required"),
        (f"{CHOICE}.index", 7, "index: Input should be 0"),
        ("usage.completion_tokens", 7, "no log-probabilities of the token ids"),
        ("usage.prompt_tokens", 9_999, "tokens were sent, 9999 by the server's count"),
        ("choices", None, "choices: Input should be a valid list"),
        ("choices", [{}, {}], "at most 1 item"),
        ("model", None, "model: Input should be a valid string"),
    ],
)
def test_false_values_are_refused(place: str, value: Any, says: str) -> None:
    kept = json.loads(REPLIES.read_text())["replies"]["score"]
    reply = apply_changes(kept["reply"], {place: value})
    with pytest.raises(ValueError, match=says):
        read(reply, Question(kept["content"]["prompt"], kept["content"]["max_tokens"], (), kept["first"]))
