"""No interpreter that the package starts imports what lies in the working folder."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from remedy.data_gen.execution.isolation import find_interpreter
from remedy.data_gen.execution.program import Program
from remedy.eval.control_flow.flow import ControlFlow
from remedy.launch.runner import _on_several
from remedy.models.kernels import refusal_in_subprocess
from tests.test_structure import FILES, ROOT

STARTS = {
    # An interpreter of this search path, but for the working folder.
    "models/kernels.py refusal_in_subprocess: subprocess.run(own_command())",
    "train/arguments.py to_universal: subprocess.run(module_command())",
    "launch/runner.py _on_several: subprocess.Popen(module_command())",
    "remedy/processes.py own_command: sys.executable",
    # Any interpreter, isolated and from an empty folder.
    "remedy/processes.py ask: subprocess.run([])",
    "data_gen/execution/isolation.py _try_bubblewrap: subprocess.run([])",
    # The sandbox's server, from an empty folder, with variables of its own.
    "data_gen/execution/sandbox.py Sandbox._start: subprocess.Popen(server_command())",
    # multiprocessing, whose options remedy/processes.py completes.
    "remedy/processes.py worker_pool: multiprocessing.get_context('spawn')",
    "remedy/processes.py worker_pool: ProcessPoolExecutor(workers)",
    "data_gen/shards.py _written_by_workers: multiprocessing.get_context('spawn')",
    "launch/runner.py process_context: multiprocessing.get_context('spawn')",
    "launch/runner.py process_context: multiprocessing.get_context('forkserver')",
    "launch/plan_cost.py _measured: ProcessPoolExecutor(1)",
    # No interpreter begins: a fork, and the path of the one that runs us.
    "data_gen/execution/server.py _run: os.fork()",
    "data_gen/execution/walls.py Walls._problem: os.fork()",
    "data_gen/execution/isolation.py find_interpreter: sys.executable",
    "data_gen/execution/walls.py readable: sys.executable",
    "eval/control_flow/reading.py bytecode_of: sys.executable",
}
"""Each place that starts a process, or names the interpreter: where, by which call, and what makes the command."""
CALLS = {
    "subprocess": "",
    "multiprocessing": "get_context Process Pool Manager set_start_method set_executable",
    "os": "fork forkpty system popen exec spawn posix_spawn startfile",
    "pty": "",
    "asyncio": "create_subprocess",
    "concurrent.futures": "ProcessPoolExecutor",
}
TRAPS = [
    *(
        "json",
        "sysconfig",
        "types",
        "signal",
        "multiprocessing",
        "sitecustomize",
        "usercustomize",
        "runpy",
        "pickle",
        "re",
    ),
    *(
        "struct",
        "socket",
        "subprocess",
        "threading",
        "tempfile",
        "importlib",
        "enum",
        "functools",
        "collections",
        "typing",
    ),
    *("pathlib", "logging", "numpy", "torch", "pydantic", "yaml", "psutil", "remedy"),
]
SCRIPT = "import sys\nif __name__ == '__main__':\n    sys.path.remove({folder!r})\n    {code}\n"


def starts(path: Path) -> set[str]:
    """What a file has of what `STARTS` lists."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    aliases = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    found = set[str]()

    def look(node: ast.AST, place: str, made: dict[str, str]) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            place = f"{place}.{node.name}".lstrip(".")
            made = {}
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            made[node.targets[0].id] = command(node.value, made)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable":
            found.add(f"{path.relative_to(ROOT)} {place}: sys.executable")
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            module, _, name = aliases.get(called, called).rpartition(".")
            if module in CALLS and name.startswith(tuple(CALLS[module].split()) or name):
                given = command(node.args[0], made) if node.args else ""
                found.add(f"{path.relative_to(ROOT)} {place}: {called}({given})")
        for child in ast.iter_child_nodes(node):
            look(child, place, made)

    def command(node: ast.expr, made: dict[str, str]) -> str:
        match node:
            case ast.Call(func=ast.Name(name)):
                return f"{name}()"
            case ast.List():
                return "[]"
            case ast.Name(name):
                return made.get(name, name)
        return ast.unparse(node)

    look(tree, "", {})
    return found


def test_every_place_that_starts_an_interpreter_is_known() -> None:
    assert set().union(*map(starts, FILES)) == STARTS


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    """A working folder in which modules lie that say so when they are imported."""
    folder = tmp_path / "trapped"
    folder.mkdir()
    for name in TRAPS:
        (folder / f"{name}.py").write_text(
            f"with open({str(tmp_path / 'canary')!r}, 'a') as file:\n    file.write('{name} ')\n"
        )
    return folder


def caught(folder: Path) -> str:
    canary = folder.parent / "canary"
    return canary.read_text() if canary.exists() else ""


def run(code: str, folder: Path, *words: str) -> str:
    """Run code as the script of an installed command, in a folder; returns what it prints."""
    script = folder.parent / "command" / "script.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text(SCRIPT.format(folder=str(script.parent), code=code))
    done = subprocess.run(
        [sys.executable, str(script), *words], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "command",
    [["-c", "import json"], ["-c", "from multiprocessing.spawn import spawn_main"], ["-m", "json"]],
)
def test_the_traps_work(command: list[str], trapped: Path) -> None:
    subprocess.run([sys.executable, *command], cwd=trapped, capture_output=True)
    assert caught(trapped) != ""


def test_neither_a_question_to_an_interpreter_nor_a_kernels_trial_imports_them(
    trapped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trapped)
    other = trapped.parent / "python"
    other.symlink_to(os.path.realpath(sys.executable))
    relative = os.path.relpath(other, trapped)
    assert find_interpreter(relative).path == str(other)
    if sys.version_info[:2] == (3, 11):
        ControlFlow(Program.from_call("def f(x):\n    return x\n", "1", "p"), relative)
    monkeypatch.setattr("remedy.models.kernels.find_spec", lambda package: True)
    answer = refusal_in_subprocess(("short_convolution", (8, 4, 1)), torch.device("cpu"), torch.float32)
    assert answer is not None
    assert "No module named" in answer
    assert caught(trapped) == ""


@pytest.mark.slow
def test_no_process_of_a_command_imports_them(trapped: Path) -> None:
    (trapped / "pkg").mkdir()
    (trapped / "pkg" / "__init__.py").write_text("def f(x):\n    '''\n    >>> f(3)\n    '''\n    return x + 1\n")
    data = {"task": {"kind": "permutation", "length": 4}, "format": "repl"}
    data_set = {"data": data, "write": {"splits": {"train": 40}, "shard_size": 10}}
    (trapped / "data.yaml").write_text(yaml.safe_dump(data_set))
    command = "from remedy.launch.cli import main; main()"
    assert "harvested: " in run(command, trapped, "harvest", ".", "--out", "../out.jsonl")
    run(command, trapped, "generate", "data.yaml", "--out", "../data", "--workers", "2")
    assert caught(trapped) == ""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_no_process_of_multiprocessing_imports_them(method: str, trapped: Path) -> None:
    code = (
        f"import remedy.processes\n    from multiprocessing import get_context\n    context = get_context({method!r})\n"
        "    process = context.Process(target=print, args=(context.Value('q', 7).value,))\n"
        "    process.start()\n    process.join()"
    )
    assert run(code, trapped) == "7\n"
    assert caught(trapped) == ""


@pytest.mark.slow
def test_no_process_of_torchrun_imports_them(
    trapped: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(trapped)
    Path("data.json").write_text("[1, 2]")
    _on_several(2, "json.tool", "--compact", "data.json")
    assert capfd.readouterr().out == "[1,2]\n" * 2
    assert caught(trapped) == ""
