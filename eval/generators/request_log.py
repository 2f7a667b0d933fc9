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
from remedy.eval.generators.base import DecodingOptions, ModelOutput, OnWritten, Request, Writer, ignore_output
from remedy.eval.progress import Meter
from remedy.files import writing
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
        self._outputs: dict[str, ModelOutput] = {}
        self._torn = False
        for path in sorted(folder.glob("*.jsonl")):
            text = path.read_text(encoding="utf-8", errors="replace")
            if path == self.path:
                self._torn = bool(text) and not text.endswith("\n")
            for line in text.splitlines():
                self._take(line)

    def __len__(self) -> int:
        return len(self._outputs)

    def find(self, truth: Encoded, options: DecodingOptions) -> ModelOutput | None:
        return self._outputs.get(self._key(truth, options)) if self._outputs else None

    def add(self, truth: Encoded, options: DecodingOptions, output: ModelOutput) -> None:
        """Append an output."""
        text = json.dumps([self._key(truth, options), output.near_ties, [list(run) for run in output.runs]])
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write("\n" * self._torn + text + "\n")
        self._torn = False

    def clear(self) -> None:
        self._outputs, self._torn = {}, False
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _take(self, line: str) -> None:
        try:
            key, near_ties, runs = json.loads(line)
        except ValueError:
            return
        generated = [
            Generated(*run)._replace(origins=tuple(TokenOrigin(*fields) for fields in run[-1])) for run in runs
        ]
        self._outputs[key] = ModelOutput(generated, near_ties)

    def _key(self, truth: Encoded, options: DecodingOptions) -> str:
        fed, exact, most, predicted, memory, constraint = options
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
        self, requests: Sequence[Request], options: DecodingOptions, on_written: OnWritten = ignore_output
    ) -> list[ModelOutput]:
        outputs = {
            number: output
            for number, request in enumerate(requests)
            if (output := self.journal.find(request.example, options))
        }
        rest = [number for number in range(len(requests)) if number not in outputs]
        self.meter.skip(len(outputs))

        def log_output(index: int, output: ModelOutput) -> None:
            number = rest[index]
            self.journal.add(requests[number].example, options, output)
            outputs[number] = output
            self.meter.step()
            on_written(number, output)

        try:
            self.generator.generate([requests[number] for number in rest], options, log_output)
        except UserError as error:
            count = f"{self.meter.all_done:,} of {self.meter.traces:,} traces of this condition are kept"
            raise UserError(f"{error} ({count})") from None
        return [outputs[number] for number in range(len(requests))]
