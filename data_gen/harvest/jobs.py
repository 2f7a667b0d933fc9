"""Jobs of a harvest: what runs a package's code, each in a sandbox, and what may come back."""

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
"""The arguments of calls, as text, of each function."""
Result = tuple[Word, Text, bool]
"""What became of a call: a word, the result as text, and whether it was an iterator's items."""
Results = dict[str, list[Result]]
"""The results of the calls of each function."""
_MOST_SECONDS = 100.0
"""Seconds after which a job is ended, and lost."""
_MEMORY_MEGABYTES = 2048
_AT_A_TIME = 8
"""Modules whose examples are run in one process, since to import a package takes longer than to run them."""
_ESCAPED = re.compile(r"\\(.)")
"""What the repr of a text in ASCII escapes: its backslashes and quotes."""
_RECORDED = TypeAdapter(dict[str, Calls])
_NAMES = TypeAdapter(list[str])
_EVALUATED = TypeAdapter(Results)


class Jobs:
    """Sandboxes that can import a package. Use as a context manager."""

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
        """The calls of `wanted` functions (module, first line, name) that modules' examples, some at a time, and each file make."""
        about = {"kind": "record", "wanted": wanted, "folder": folder}
        tests = [file for file in files if file.endswith(".py")]
        texts = [file for file in files if file not in tests]
        some = [{**about, "modules": group, "files": []} for group in groups(modules, _AT_A_TIME)]
        some += [{**about, "modules": [], "files": group} for group in [*groups(texts, _AT_A_TIME), *groups(tests, 1)]]
        with ThreadPoolExecutor(len(self._boxes)) as pool:
            yield from pool.map(self._recorded, some)

    def _recorded(self, job: dict[str, Any]) -> list[dict[str, Calls] | ProgramError]:
        """Return what a job finds; where several modules or texts end it, what each of them alone does."""
        found = self._found(job, _RECORDED)
        if not isinstance(found, ProgramError) or len(job["modules"] + job["files"]) < 2:
            return [found]
        alone = [(key, one) for key in ("modules", "files") for one in job[key]]
        return [self._found({**job, "modules": [], "files": [], key: [one]}, _RECORDED) for key, one in alone]

    def broken(self, modules: Sequence[str]) -> set[str]:
        """The modules that cannot be imported."""
        if not modules:
            return set()
        found = self._found({"kind": "broken", "modules": modules}, _NAMES)
        if not isinstance(found, ProgramError):
            return set(found)
        half = len(modules) // 2
        return self.broken(modules[:half]) | self.broken(modules[half:]) if half else set(modules)

    def evaluate(self, module: str, calls: Calls) -> Results:
        """Try calls of a module's functions; none of a function that ends the process."""
        found = self._found({"kind": "evaluate", "module": module, "calls": calls}, _EVALUATED)
        if not isinstance(found, ProgramError):
            return {name: found[name] for name in calls if len(found.get(name, ())) == len(calls[name])}
        if len(calls) == 1:
            return {}
        items, half = list(calls.items()), len(calls) // 2
        return self.evaluate(module, dict(items[:half])) | self.evaluate(module, dict(items[half:]))

    def _found(self, job: dict[str, Any], form: TypeAdapter[Any]) -> Any:
        box = self._free.get()
        try:
            result = box.trace(_program({**job, **self._seen})).result
            if result is None:
                return ProgramError("raised", "the job raised")
            text = _ESCAPED.sub(r"\1", result.text[1:-1])  # to parse a hostile literal could take gigabytes
            return form.validate_json(text)
        except ProgramError as error:
            return error
        except ValueError:
            return ProgramError("forged", "what came back is nothing that a job finds")
        finally:
            self._free.put(box)


def groups(items: Sequence[T], most: int) -> list[Sequence[T]]:
    """The items in their order, at most so many together."""
    return [items[at : at + most] for at in range(0, len(items), most)]


def _program(job: dict[str, Any]) -> Program:
    given = f"\nimport json\nFOUND = run(json.loads({json.dumps(job)!r}))\n"
    return Program(f"{_inside()}{given}def main():  {MARKER}\n    return FOUND\n", "harvest")


@lru_cache(maxsize=1)
def _inside() -> str:
    return resources.files("remedy.data_gen.harvest").joinpath("inside.py").read_text(encoding="utf-8")


def are_literals(arguments: str) -> bool:
    """Say if the arguments of a call are literals and nothing else."""
    try:
        values(arguments)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return False
    return True
