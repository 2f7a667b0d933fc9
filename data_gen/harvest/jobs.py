"""Jobs of a harvest: a package's code, run in sandboxes, and what may come back."""

from __future__ import annotations

import json
import queue
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib import resources
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, TypeAdapter

from remedy.data_gen.execution.program import MARKER, Program, ProgramError
from remedy.data_gen.execution.sandbox import Sandbox, TracerConfig
from remedy.data_gen.harvest.inside import MOST_CALLS, MOST_CHARACTERS, values

T = TypeVar("T")
Word = Literal["ok", "raises", "literal", "long", "unstable", "import"]
Text = Annotated[str, Field(max_length=MOST_CHARACTERS)]
Calls = dict[str, Annotated[list[Text], Field(max_length=MOST_CALLS)]]
"""Arguments of the calls of each function, as text."""
Result = tuple[Word, Text, bool]
"""Outcome of a call: a word, the result as text, and whether it lists an iterator's items."""
Results = dict[str, list[Result]]
"""Outcomes of the calls of each function."""
_MOST_SECONDS = 100.0
"""Time limit of a job, in seconds; a longer one is lost."""
_MEMORY_MEGABYTES = 2048
_AT_A_TIME = 8
"""Modules whose examples share a process: importing a package takes longer than running them."""
_ESCAPED = re.compile(r"\\(.)")
"""An escape in the repr of ASCII text."""
_RECORDED = TypeAdapter(dict[str, Calls])
_NAMES = TypeAdapter(list[str])
_EVALUATED = TypeAdapter(Results)


class Jobs:
    """Sandboxes that can import a package; a context manager."""

    def __init__(self, python: str | None, libraries: Sequence[str], alone: Mapping[str, str], workers: int) -> None:
        self._seen = {"path": [] if alone else libraries, "alone": alone}
        config = TracerConfig(python=python, timeout_seconds=_MOST_SECONDS, memory_megabytes=_MEMORY_MEGABYTES)
        self._boxes = [Sandbox(config, libraries=libraries) for _ in range(workers)]
        self._free: queue.SimpleQueue[Sandbox] = queue.SimpleQueue()
        for box in self._boxes:
            self._free.put(box)

    def __enter__(self) -> Jobs:
        return self

    def __exit__(self, *_: object) -> None:
        for box in self._boxes:
            box.close()

    def record(
        self, wanted: Mapping[str, Mapping[int, str]], modules: Sequence[str], files: Sequence[str], folder: str
    ) -> Iterator[list[dict[str, Calls] | ProgramError]]:
        """Yield the calls of `wanted` functions that examples and tests make."""
        about = {"kind": "record", "wanted": wanted, "folder": folder}
        tests = [file for file in files if file.endswith(".py")]
        texts = [file for file in files if file not in tests]
        # Each file of tests has a process of its own: what it changes, or a crash, must not reach the others.
        jobs = [{**about, "modules": group, "files": []} for group in groups(modules, _AT_A_TIME)]
        jobs += [{**about, "modules": [], "files": group} for group in [*groups(texts, _AT_A_TIME), *groups(tests, 1)]]
        with ThreadPoolExecutor(len(self._boxes)) as pool:
            yield from pool.map(self._recorded, jobs)

    def _recorded(self, job: dict[str, Any]) -> list[dict[str, Calls] | ProgramError]:
        outcome = self._run(job, _RECORDED)
        if not isinstance(outcome, ProgramError) or len(job["modules"] + job["files"]) < 2:
            return [outcome]
        alone = [(key, item) for key in ("modules", "files") for item in job[key]]
        return [self._run({**job, "modules": [], "files": [], key: [item]}, _RECORDED) for key, item in alone]

    def broken(self, modules: Sequence[str]) -> set[str]:
        if not modules:
            return set()
        names = self._run({"kind": "broken", "modules": modules}, _NAMES)
        if not isinstance(names, ProgramError):
            return set(names)
        half = len(modules) // 2
        return self.broken(modules[:half]) | self.broken(modules[half:]) if half else set(modules)

    def evaluate(self, module: str, calls: Calls) -> Results:
        """Try calls of a module's functions; leave out functions that end the process."""
        results = self._run({"kind": "evaluate", "module": module, "calls": calls}, _EVALUATED)
        if not isinstance(results, ProgramError):
            return {name: results[name] for name in calls if len(results.get(name, ())) == len(calls[name])}
        if len(calls) == 1:
            return {}
        items, half = list(calls.items()), len(calls) // 2
        return self.evaluate(module, dict(items[:half])) | self.evaluate(module, dict(items[half:]))

    def _run(self, job: dict[str, Any], form: TypeAdapter[Any]) -> Any:
        box = self._free.get()
        try:
            result = box.trace(_program({**job, **self._seen})).result
            if result is None:
                return ProgramError("raised", "the job raised")
            text = _ESCAPED.sub(r"\1", result.text[1:-1])  # to parse a hostile literal could take gigabytes
            # The package ran in that process and may have forged the result: only data of this form is let in.
            return form.validate_json(text)
        except ProgramError as error:
            return error
        except ValueError:
            return ProgramError("forged", "what came back is nothing that a job finds")
        finally:
            self._free.put(box)


def groups(items: Sequence[T], most: int) -> list[Sequence[T]]:
    return [items[start : start + most] for start in range(0, len(items), most)]


def _program(job: dict[str, Any]) -> Program:
    given = f"\nimport json\nFOUND = run(json.loads({json.dumps(job)!r}))\n"
    return Program(f"{_inside()}{given}def main():  {MARKER}\n    return FOUND\n", "harvest")


@lru_cache(maxsize=1)
def _inside() -> str:
    return resources.files("remedy.data_gen.harvest").joinpath("inside.py").read_text(encoding="utf-8")


def are_literals(arguments: str) -> bool:
    try:
        values(arguments)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return False
    return True
