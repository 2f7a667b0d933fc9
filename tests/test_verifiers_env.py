"""The environment of examples/verifiers_env, evaluated by verifiers itself against a server that answers as a chat model does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "verifiers_env"


@contextmanager
def serving(replies: dict[str, str]) -> Iterator[str]:
    """The address of a server that has a reply to each message."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            message = {"role": "assistant", "content": replies[asked["messages"][-1]["content"]]}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            about = {"id": "1", "object": "chat.completion", "created": 1, "model": "stand-in"}
            body = json.dumps({**about, "choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def test_verifiers_pays_each_part_with_its_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("verifiers.v1", reason="needs verifiers (0.4.0 was tried)")
    import verifiers.v1 as vf

    monkeypatch.syspath_prepend(str(FOLDER))
    tasks = list(vf.load_environment(vf.resolve_env_config({"taskset": {"id": "remedy-traces"}})).taskset.take(3))
    true = [task.data.trace for task in tasks]
    assert "Program:\n>>> a = " in tasks[0].data.prompt
    assert tasks[0].data.prompt.endswith("\nSession:\n")
    longer = f"{true[1]}>>> a, b = b, a\n"
    replies = dict(zip((task.data.prompt for task in tasks), (true[0], longer, "I cannot."), strict=True))
    weights = ["--env.taskset.task.rewards.format.weight", "0.5"]
    with serving(replies) as address:
        words = f"remedy-traces --model stand-in --client.base-url {address} -n 3 --no-push --no-rich".split()
        code = "from verifiers.v1.cli.eval.main import main; main()"
        command = [sys.executable, "-c", code, *words, *weights, "--output-dir", str(tmp_path), "--run.name", "tried"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", ".")])}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    (written,) = tmp_path.rglob("traces.jsonl")
    found = [trace for line in written.read_text().splitlines() for trace in json.loads(line)["traces"]]
    paid = {one["task"]["data"]["idx"]: {k: v["score"] for k, v in one["rewards"].items()} for one in found}
    assert paid[0] == {"prefix": 1, "answer": 1, "format": 1, "whole": 1}
    # A command after the end, where four frames are right.
    assert paid[1] == {"prefix": 0.8, "answer": 1, "format": 1, "whole": 0}
    assert paid[2] == {"prefix": 0, "answer": 0, "format": 0, "whole": 0}
    assert found[0]["rewards"]["format"]["weight"] == 0.5
