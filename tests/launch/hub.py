"""A stand-in of the Hugging Face hub on this machine: it answers what its client asks while it pushes, and keeps what it gets."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import yaml

TOKEN = "hf_of_me"
LARGE = (".safetensors", ".parquet")
REPO = re.compile(r"/api/(model|dataset)s/([^/]+/[^/]+)(?:/(\w+)/([^/?]+))?")


class Hub:
    """`repos`: of each kind and name, whether it is private and its files by branch. `cut`: the start of a path at which the next
    request is cut off, unanswered."""

    def __init__(self) -> None:
        self.repos: dict[tuple[str, str], dict[str, Any]] = {}
        self.large: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.cut = ""
        self.url = ""

    def files(self, kind: str, name: str, branch: str = "main") -> dict[str, bytes]:
        found: dict[str, bytes] = self.repos[kind, name]["branches"][branch]
        return found

    def answer(self, method: str, path: str, token: str, body: bytes) -> tuple[int, Any]:
        if method == "PUT":  # the address is the secret
            oid = path.rpartition("/")[2]
            assert hashlib.sha256(body).hexdigest() == oid
            self.large[oid] = body
            return 200, {}
        if token != f"Bearer {TOKEN}":
            return 401, {"error": "Invalid credentials in Authorization header"}
        if path == "/api/whoami-v2":
            return 200, {"name": "me", "type": "user"}
        if path == "/api/validate-yaml":
            front = json.loads(body)["content"].split("---\n")[1]
            return 200, {"warnings": [], "errors": [], "read": list(yaml.safe_load(front))}
        if path.endswith("/info/lfs/objects/batch"):
            return 200, {"objects": [self._action(one) for one in json.loads(body)["objects"]]}
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        asked = REPO.fullmatch(path.partition("?")[0])
        assert asked is not None, path
        kind, name, verb, branch = asked.groups()
        if (kind, name) not in self.repos:
            return 404, {"error": "Repository not found"}
        return self._of_a_repository(self.repos[kind, name], name, verb, branch, body)

    def _action(self, one: dict[str, Any]) -> dict[str, Any]:
        upload = {"upload": {"href": f"{self.url}/put/{one['oid']}"}}
        return {"oid": one["oid"], "size": one["size"]} | ({} if one["oid"] in self.large else {"actions": upload})

    def _create(self, asked: dict[str, Any]) -> tuple[int, Any]:
        if asked["organization"] != "me":
            return 403, {"error": f"You don't have the rights to create a repository under {asked['organization']}"}
        kind, name = asked.get("type", "model"), f"me/{asked['name']}"
        address = {"url": f"{self.url}/{'datasets/' if kind == 'dataset' else ''}{name}"}
        if (kind, name) in self.repos:
            return 409, {"error": "You already created this repo", **address}
        self.repos[kind, name] = {"private": asked.get("visibility") == "private", "branches": {"main": {}}}
        return 200, address

    def _of_a_repository(
        self, repo: dict[str, Any], name: str, verb: str | None, branch: str, body: bytes
    ) -> tuple[int, Any]:
        if verb is None:
            return 200, {"id": name, "private": repo["private"], "sha": "0" * 40, "siblings": []}
        if verb == "branch":
            repo["branches"].setdefault(branch, {})
            return 200, {}
        files = repo["branches"][branch]
        if verb == "tree":
            return 200, [{"type": "file", "path": path, "size": len(held), "oid": ""} for path, held in files.items()]
        if verb == "preupload":
            names = [one["path"] for one in json.loads(body)["files"]]
            modes = {True: "lfs", False: "regular"}
            return 200, {
                "files": [{"path": n, "uploadMode": modes[n.endswith(LARGE)], "shouldIgnore": False} for n in names]
            }
        assert verb == "commit"
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            match line["key"]:
                case "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = self.large[value["oid"]]
                case "deletedFile":
                    del files[value["path"]]
        return 200, {"commitUrl": f"{self.url}/{name}/commit/1", "commitOid": "1" * 40}


@contextmanager
def served() -> Iterator[Hub]:
    """A hub that answers on a port of this machine."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            hub.asked.append(f"{self.command} {self.path}")
            if hub.cut and self.path.startswith(hub.cut):
                hub.cut = ""
                self.close_connection = True
                return
            status, said = hub.answer(self.command, self.path, self.headers.get("Authorization", ""), body)
            text = json.dumps(said).encode()
            self.send_response(status)
            if status in (403, 404):
                self.send_header("X-Error-Message", said["error"])
            if status == 404:
                self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = reply

        def log_message(self, *said: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
