"""A server of completions over a tiny model: real HTTP, real token ids, and faults where a script asks for them.

It replies in vLLM's form (`/v1/completions`), as far as it is used, and refuses in its words what vLLM refuses: a token out of the
vocabulary, a sequence longer than the model's, an unknown model.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
from torch import Tensor

from remedy.models.protocol import CausalLM
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import TraceTokenizer
from tests.lark import Matcher, tokens_of

Bend = Callable[[Any], object]
Fault = str | int | Bend
"""What becomes of a request: a status, or `late`, `drop` (the connection), `cut` (the JSON), `half` (the body), `gone` (for good),
`drip` (a byte now and then); or what makes another reply of it."""
Script = Callable[[int, Mapping[str, Any]], "Fault | None"]
"""The fault of a request, by its number among the POSTs and its content."""


class ContractServer:
    """Serves a causal language model on a port of this machine: greedy completions with log-probabilities.

    `key`: which must be sent; `invariant`: what `/server_info` says, if there is one; `names`: the tokenizer that the server believes
    in; `guided`: whether it looks at grammars.
    """

    def __init__(
        self,
        model: CausalLM,
        tokenizer: TraceTokenizer,
        *,
        max_model_len: int = 4096,
        key: str = "",
        invariant: bool | None = None,
        names: TraceTokenizer | None = None,
        guided: bool = True,
    ) -> None:
        self.reader, self.tokenizer, self.lock = ModelReader(model, "served"), tokenizer, threading.Lock()
        self.max_model_len, self.key, self.invariant, self.guided = max_model_len, key, invariant, guided
        self.names = names or tokenizer
        self.script: Script = lambda number, content: None
        self.late = 1.0
        """Seconds that a `late` reply takes."""
        self.posts = self.at_once = self.most_at_once = 0
        self.gone = False
        self.contents: list[Mapping[str, Any]] = []

    @contextmanager
    def running(self, port: int = 0) -> Iterator[str]:
        """Its address."""
        server = _Http(("127.0.0.1", port), _handler(self))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()

    def page(self, path: str) -> Any:
        """What GET gives; None: no such page."""
        if path == "/v1/models":
            return {"data": [{"id": "tiny", "owned_by": "vllm", "max_model_len": self.max_model_len}]}
        if path == "/version":
            return {"version": "0.0.contract"}
        if path.startswith("/server_info") and self.invariant is not None:
            return {"vllm_env": {"VLLM_BATCH_INVARIANT": self.invariant}}
        return None

    @torch.no_grad()
    def reply(self, path: str, content: Mapping[str, Any]) -> tuple[int, Any]:
        """Status and content of the reply to a POST."""
        prompt, most = content["prompt"], content["max_tokens"]
        if path != "/v1/completions" or content["model"] != "tiny":
            return 404, _error(f"The model `{content['model']}` does not exist.")
        if max(prompt) >= self.reader.vocabulary:
            return 400, _error(f"Token id {max(prompt)} is out of vocabulary")
        if len(prompt) + most > self.max_model_len:
            return 400, _error(f"This model's maximum context length is {self.max_model_len} tokens")
        assert (content["temperature"], content["repetition_penalty"]) == (0, 1)
        grammar = content.get("structured_outputs", {}).get("grammar", "") if self.guided else ""
        scores = content.get("prompt_logprobs") is not None
        with self.lock:
            stops, allowed = content["stop_token_ids"], content.get("allowed_token_ids", ())
            written = self._write(prompt, most, stops, allowed, grammar)
            scored = (
                next(self.reader.parallel([prompt]))[:-1].float().log_softmax(-1) if scores and len(prompt) > 1 else ()
            )
        ids, count = [int(one.argmax()) for one in written], content["logprobs"]
        tops = [self._top(row, token, count) for row, token in zip(written, ids)]
        logprobs = {
            "token_logprobs": [float(row[token]) for row, token in zip(written, ids)],
            "top_logprobs": [{f"token_id:{token}": logprob for token, logprob in top.items()} for top in tops],
        }
        places: list[Any] = [None]
        for row, true in zip(scored, prompt[1:]):
            top = self._top(row, true, count)
            places.append({str(one): {"logprob": top[one], "decoded_token": self._name(one)} for one in top})
        choice = {"index": 0, "token_ids": ids, "logprobs": logprobs, "prompt_logprobs": places if scores else None}
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids)}
        return 200, {"model": "tiny", "choices": [choice], "usage": usage}

    def _write(
        self, prompt: Sequence[int], most: int, stops: Sequence[int], allowed: Sequence[int], grammar: str
    ) -> list[Tensor]:
        """Log-probabilities (V,) of each written token: the likeliest, which is among `allowed` if these are given, and what a
        `grammar` allows; as servers do, what it does not is cut before they are taken."""
        found: list[Tensor] = []
        matcher = Matcher(tokens_of(self.tokenizer), grammar) if grammar else None
        logits = self.reader.prefill([prompt])[0]
        while True:
            logprobs = logits.float().log_softmax(-1)
            if matcher is not None:
                logprobs = logprobs.masked_fill(~matcher.allowed(), -1e4).log_softmax(-1)
            if allowed:
                cut = torch.ones_like(logprobs, dtype=torch.bool).index_fill(0, torch.tensor(list(allowed)), False)
                logprobs = logprobs.masked_fill(cut, -torch.inf).log_softmax(-1)
            found.append(logprobs)
            token = int(logprobs.argmax())
            if len(found) == most or token in stops:
                return found
            if matcher is not None:
                matcher.take(token)
            logits = self.reader.step([token])[0]

    def _top(self, row: Tensor, token: int, count: int) -> dict[int, float]:
        """As vLLM lists them: the token itself first, then the likeliest."""
        return {one: float(row[one]) for one in [token, *row.topk(count).indices.tolist()]}

    def _name(self, token: int) -> str:
        return self.names.decode([token]) if token < self.names.vocab_size else ""


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message}}


def _handler(server: ContractServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words: Any) -> None:
            pass

        def do_GET(self) -> None:
            if server.gone:
                return self._drop()
            found = server.page(self.path)
            return self._send(404, {"detail": "Not Found"}) if found is None else self._send(200, found)

        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with server.lock:
                number = server.posts
                server.posts += 1
                server.at_once += 1
                server.most_at_once = max(server.most_at_once, server.at_once)
                server.contents.append(content)
            try:
                self._answer(number, content)
            finally:
                with server.lock:
                    server.at_once -= 1

        def _answer(self, number: int, content: Mapping[str, Any]) -> None:
            if server.key and self.headers.get("Authorization") != f"Bearer {server.key}":
                return self._send(401, {"error": "Unauthorized"})
            fault = server.script(number, content)
            server.gone |= fault == "gone"
            if server.gone or fault == "drop":
                return self._drop()
            if isinstance(fault, int):
                return self._send(fault, _error("a fault by script"))
            if fault == "late":
                time.sleep(server.late)
            status, reply = server.reply(self.path, content)
            if callable(fault):
                fault(reply)
            return self._send(status, reply, "" if callable(fault) or fault is None else fault)

        def _send(self, status: int, content: Any, fault: str = "") -> None:
            body = json.dumps(content).encode()
            if fault == "cut":
                body = body[: len(body) // 2]
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                for place in range(len(body) if fault == "drip" else 0):
                    self.wfile.write(body[place : place + 1])
                    time.sleep(0.02)
                if fault != "drip":
                    self.wfile.write(body[: len(body) // 2] if fault == "half" else body)
            except OSError:  # whoever asked did not wait
                self.close_connection = True
            if fault == "half":
                self._drop()

        def _drop(self) -> None:
            self.close_connection = True
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    return Handler
