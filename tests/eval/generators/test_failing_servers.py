"""What may pass is tried again, what will not is one line, and what was done is kept."""

from __future__ import annotations

import gzip
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from remedy.eval.decoding.cursor import Generated
from remedy.eval.decoding.forcings import fed_roles
from remedy.eval.decoding.protocol import TokenOrigin
from remedy.eval.generators.backend import KEY, Backend
from remedy.eval.generators.base import DecodingOptions, ModelOutput, make_requests
from remedy.eval.generators.request_log import Journal
from remedy.eval.generators.served import ServedGenerator
from remedy.eval.records.folder import UNFINISHED
from remedy.models.encoding import encoded_examples
from remedy.models.tokenizer import Encoded, TraceTokenizer
from remedy.settings import UserError
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
from tests.evaluations import assert_the_same, unfinished

FAULTS: list[Any] = ["late", "drop", "cut", 429, 500, 503, "half", "drip"]


def test_what_may_pass_is_tried_again() -> None:
    model, tokenizer = model_for(SYMBOLIC)
    truths = [truth for _, truth in encoded_examples(SYMBOLIC, tokenizer, "test", range(3))]
    asked = DecodingOptions(fed_roles("action_forced"), True, 100)
    server = ContractServer(model, tokenizer)
    server.late = 1.0
    with server.running() as url:
        served = ServedGenerator(Backend.model_validate(backend_for(url)), tokenizer, batch_size=1)
        expected = served.generate(make_requests(truths), asked)
        begin = server.posts
        served.server.backend = served.backend.model_copy(update={"timeout": 0.9})
        server.script = lambda number, content: (
            FAULTS[(number - begin) // 2] if (number - begin) % 2 == 0 and (number - begin) // 2 < len(FAULTS) else None
        )
        assert served.generate(make_requests(truths), asked) == expected
    assert server.posts - begin >= 2 * len(FAULTS)


def test_a_server_that_goes_away_leaves_what_is_done_and_says_how_to_go_on(tmp_path: Path) -> None:
    model, tokenizer = model_for(SYMBOLIC)
    local = evaluated(model, tokenizer, settings_for(FORCINGS[:1]), tmp_path / "local")
    server = ContractServer(model, tokenizer)
    programs = [truth.ids[:6] for _, truth in encoded_examples(SYMBOLIC, tokenizer, "test", range(3))]
    server.script = lambda number, content: (
        "gone"
        if sum(one["prompt"][:6] in programs and "prompt_logprobs" in one for one in server.contents) > 2
        else None
    )
    folder = tmp_path / "served"
    with server.running() as url:
        config = settings_for(FORCINGS[:1], backend_for(url, patience=0.2), batch_size=1)
        with pytest.raises(UserError) as raised:
            evaluated(model, tokenizer, config, folder)
    told = re.fullmatch(
        rf"{re.escape(url)}/v1/completions: the connection was dropped \(.*\), for 0 s: start the server, or correct its address; "
        r"then give the same command, which goes on from there \(([12]) of 3 traces of this condition are kept\)",
        str(raised.value),
    )
    assert told, raised.value
    kept = unfinished(folder)
    assert len(kept) == int(told[1])
    server = ContractServer(model, tokenizer)  # at another address
    with server.running() as url:
        evaluated(model, tokenizer, settings_for(FORCINGS[:1], backend_for(url), batch_size=2), folder)
    assert_the_same(local, folder)
    assert not (folder / UNFINISHED).exists()


def test_lines_that_are_torn_or_anothers_are_written_again(tmp_path: Path) -> None:
    truth = Encoded([1, 2, 3], [0, 3, 3], [0, 0, 0], [False] * 3)
    asked = DecodingOptions(fed_roles("free"))
    written = ModelOutput(
        [Generated(1, 3, [5, 6], [-0.1, 0.0], True, (TokenOrigin(False, 2, 0.5, True), TokenOrigin(True)))], 1
    )
    Journal(tmp_path, "a").add(truth, asked, written)
    assert Journal(tmp_path, "a").find(truth, asked) == Journal(tmp_path, "a", rank=1).find(truth, asked) == written
    for other in (asked._replace(exact=True), asked._replace(constraint="control_flow")):
        assert Journal(tmp_path, "a").find(truth, other) is None
    assert Journal(tmp_path, "b").find(truth, asked) is None
    (path,) = tmp_path.iterdir()
    for torn in (path.read_text()[:-9], path.read_text()[:3], "\0\0\xff"):
        path.write_text(torn)
        journal = Journal(tmp_path, "a")
        assert journal.find(truth, asked) is None
        journal.add(truth, asked, written)
        assert Journal(tmp_path, "a").find(truth, asked) == written


def refused(server: ContractServer, tokenizer: TraceTokenizer, **settings: Any) -> str:
    with server.running() as url, pytest.raises(UserError) as raised:
        ServedGenerator(Backend.model_validate(backend_for(url, patience=0.1, **settings)), tokenizer, "mine")
    message = str(raised.value)
    assert "\n" not in message
    assert message.startswith(url)
    return message.removeprefix(url)


def test_a_reply_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = model_for(SYMBOLIC)
    server = ContractServer(model, tokenizer)
    server.script = lambda number, content: lambda reply: reply.update(padding="." * 300_000)
    monkeypatch.setattr("remedy.eval.generators.server.LARGEST", 1 << 18)
    assert "a reply of more than 0 MiB: is this the server?" in refused(server, tokenizer)


def test_a_reply_is_not_unpacked() -> None:
    packed = gzip.compress(gzip.compress(b"{}" + bytes(1 << 20)))

    class Packs(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.headers["Accept-Encoding"] == "identity"
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip, gzip")
            self.end_headers()
            self.wfile.write(packed)

    with ThreadingHTTPServer(("127.0.0.1", 0), Packs) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        backend = Backend.model_validate(backend_for(f"http://127.0.0.1:{server.server_port}", patience=0.1))
        with pytest.raises(UserError, match="a reply that is no JSON object"):
            ServedGenerator(backend, model_for(SYMBOLIC)[1])
        server.shutdown()


def test_what_cannot_be_evaluated_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = model_for(SYMBOLIC)
    wider, characters = model_for(CWM)

    def served(**settings: Any) -> ContractServer:
        return ContractServer(model, tokenizer, **settings)

    assert refused(served(), tokenizer, model="tinny") == ": serves no model 'tinny'; did you mean 'tiny'?"
    server = served()
    server.script = lambda number, content: lambda reply: reply["choices"][0].pop("token_ids")
    assert refused(server, tokenizer).startswith("/v1/completions: choices.0.token_ids: Field required: needed is vLLM")
    assert "out of vocabulary: needed are " in refused(served(), characters)
    other = refused(ContractServer(wider, characters, names=tokenizer), characters)
    assert re.search(r": the tokenizer of tiny is not that of mine: id \d+ is '.*' there, and '.*' here", other)
    assert "asks for a key: set the environment variable REMEDY_API_KEY" in refused(served(key="secret"), tokenizer)
    monkeypatch.setenv(KEY, "wrong")
    message = refused(served(key="secret"), tokenizer)
    assert "does not take the key in the environment variable REMEDY_API_KEY" in message
    assert "wrong" not in message
    monkeypatch.setenv(KEY, "secret\N{DEGREE SIGN}")
    with pytest.raises(UserError, match=r"^the environment variable REMEDY_API_KEY holds a character that") as raised:
        ServedGenerator(Backend.model_validate(backend_for("http://127.0.0.1:1")), tokenizer)
    assert "secret" not in str(raised.value)
    monkeypatch.setenv(KEY, "secret\n")  # as a shell reads it from a file
    for longest in (4, -1, float("nan"), True, "4096"):
        server = served()
        server.max_model_len = longest  # type: ignore[assignment]
        assert refused(server, tokenizer).startswith("/v1/models: data.0.max_model_len: Input should be")
    with (
        served(invariant=False).running() as url,
        pytest.raises(UserError, match=r"^backend.batch_invariant true: .* says that it is not"),
    ):
        ServedGenerator(Backend.model_validate(backend_for(url, batch_invariant=True)), tokenizer)


def test_the_model_that_replies_is_one_and_is_recorded(caplog: pytest.LogCaptureFixture) -> None:
    model, tokenizer = model_for(SYMBOLIC)
    server = ContractServer(model, tokenizer)
    server.script = lambda number, content: lambda reply: reply.update(model="another")
    with server.running() as url:
        served = ServedGenerator(Backend.model_validate(backend_for(url)), tokenizer)
    assert served.about.model == "another"
    assert "backend.model tiny: the replies are of another" in caplog.text
    server = ContractServer(model, tokenizer)
    server.script = lambda number, content: (lambda reply: reply.update(model="another")) if number == 2 else None
    assert refused(server, tokenizer).startswith("/v1/completions: a reply is of another, those before of tiny")


def test_an_endpoint_that_is_not_there() -> None:
    with ContractServer(*model_for(SYMBOLIC)).running() as url:
        pass
    with pytest.raises(UserError, match=r"^http://127.*/v1/models: nothing answers \(.*\), for 0 s: start the server"):
        ServedGenerator(Backend.model_validate(backend_for(url)), model_for(SYMBOLIC)[1])
