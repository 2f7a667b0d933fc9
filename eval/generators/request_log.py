"""Log of the outputs of an unfinished condition, one line each.

An interrupted evaluation continues from it, on any number of processes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from remedy.eval.decoding.cursor import Generated
from remedy.eval.decoding.protocol import TokenOrigin
from remedy.eval.generators.base import DecodingOptions, ModelOutput, OnWritten, Request, Writer, ignore
from remedy.eval.progress import Meter
from remedy.files import writing as writing_to
from remedy.models.tokenizer import Encoded
from remedy.settings import UserError


class Journal:
    """Folder of log files, one per process.

    All are read; only the own one is written. Unfinished lines are ignored.
    """

    def __init__(self, folder: Path, evaluation: str, rank: int = 0) -> None:
        """Read the log of an `evaluation`. `rank`: the process's number."""
        self.folder = folder
        self.path = folder / f"{rank}.jsonl"
        self.evaluation = evaluation
        self._held: dict[str, ModelOutput] = {}
        self._torn = False
        for path in sorted(folder.glob("*.jsonl")):
            text = path.read_text(encoding="utf-8", errors="replace")
            if path == self.path:
                self._torn = bool(text) and not text.endswith("\n")
            for line in text.splitlines():
                self._take(line)

    def __len__(self) -> int:
        return len(self._held)

    def find(self, truth: Encoded, writing: DecodingOptions) -> ModelOutput | None:
        return self._held.get(self._key(truth, writing)) if self._held else None

    def add(self, truth: Encoded, writing: DecodingOptions, written: ModelOutput) -> None:
        """Append an output."""
        text = json.dumps([self._key(truth, writing), written.near_ties, [list(run) for run in written.runs]])
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with writing_to(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write("\n" * self._torn + text + "\n")
        self._torn = False

    def clear(self) -> None:
        self._held, self._torn = {}, False
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _take(self, line: str) -> None:
        try:
            key, near_ties, runs = json.loads(line)
        except ValueError:
            return
        found = [Generated(*run)._replace(held=tuple(TokenOrigin(*how) for how in run[-1])) for run in runs]
        self._held[key] = ModelOutput(found, near_ties)

    def _key(self, truth: Encoded, writing: DecodingOptions) -> str:
        fed, exact, most, predicted, memory, constraint = writing
        about = [self.evaluation, truth.ids, truth.roles, truth.frames, sorted(map(int, fed)), exact, most]
        about += [sorted(map(int, predicted)), memory and memory.model_dump(mode="json"), constraint]
        return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]


class JournaledWriter(NamedTuple):
    """Writer that logs each output, counts it, and reuses logged ones."""

    generator: Writer
    journal: Journal
    meter: Meter

    @property
    def limit(self) -> int | None:
        return self.generator.limit

    def generate(
        self, asked: Sequence[Request], writing: DecodingOptions, done: OnWritten = ignore
    ) -> list[ModelOutput]:
        found = {number: held for number, one in enumerate(asked) if (held := self.journal.find(one.example, writing))}
        rest = [number for number in range(len(asked)) if number not in found]
        self.meter.skip(len(found))

        def keep(place: int, written: ModelOutput) -> None:
            number = rest[place]
            self.journal.add(asked[number].example, writing, written)
            found[number] = written
            self.meter.step()
            done(number, written)

        try:
            self.generator.generate([asked[number] for number in rest], writing, keep)
        except UserError as error:
            kept = f"{self.meter.all_done:,} of {self.meter.traces:,} traces of this condition are kept"
            raise UserError(f"{error} ({kept})") from None
        return [found[number] for number in range(len(asked))]
