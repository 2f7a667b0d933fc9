"""A user's own programs: a folder of `.py` files with a marked entry, or a JSONL file of {code, input}.

They are untrusted: each runs in the sandbox, and one that cannot be traced is an example with its outcome on record.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from remedy.data_gen.config import ConfigError
from remedy.data_gen.program import Program
from remedy.data_gen.sandbox import Sandbox, SandboxLimits


class ProgramsConfig(BaseModel):
    """`path`: a folder of `.py` files, or a JSONL file whose lines hold `code` (defining `f`) and `input` (its arguments).

    `seconds`, `megabytes`, `frames`, `output` (characters of values): limits of one program.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["programs"] = "programs"
    path: str
    seconds: float = Field(default=10.0, gt=0)
    megabytes: int = Field(default=1024, ge=64)
    frames: int = Field(default=100_000, ge=1)
    output: int = Field(default=16_000_000, ge=1)

    def limits(self) -> SandboxLimits:
        return SandboxLimits(self.seconds, self.megabytes, self.frames, self.output)


@lru_cache(maxsize=8)
def load_programs(path: str) -> tuple[Program, ...]:
    """All programs, in order of file name or line.

    Raises:
        ConfigError: the path holds none, or a line is malformed; the message names file and line.
    """
    source = Path(path)
    if source.is_dir():
        files = sorted(source.rglob("*.py"))
        programs = tuple(Program(_read(file), str(file)) for file in files)
    else:
        lines = _read(source).splitlines()
        programs = tuple(_parse(line, f"{path}:{number}") for number, line in enumerate(lines, start=1) if line.strip())
    if not programs:
        raise ConfigError(f"data.task.path: {path} holds no program: give a folder of .py files or a JSONL file")
    return programs


@lru_cache(maxsize=2)
def sandbox(limits: SandboxLimits) -> Sandbox:
    """This process's sandbox for these limits; its server ends with the process."""
    return Sandbox(limits)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"data.task.path: {file} cannot be read as UTF-8 text: {error}") from None


def _parse(line: str, where: str) -> Program:
    try:
        fields = json.loads(line)
        return Program.from_call(fields["code"], fields["input"], where)
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{where}: not a JSON object with `code` and `input`") from None
