"""Measurement of tokens of traces, and of how tokenizers cut strings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import Field, model_validator

from remedy.checksums import digest_of, read_json, write_json, write_table
from remedy.data_gen.execution.pool import environment, trace_one
from remedy.data_gen.splits import text_hash
from remedy.data_gen.tasks.program_sources import Case
from remedy.data_gen.tasks.programs import ProgramsTask, load_cases
from remedy.eval.costs import PATTERNS, REQUEST, TOKENS
from remedy.eval.costs.split_patterns import pattern_rows
from remedy.eval.costs.token_costs import CostSettings, token_rows
from remedy.models import tokenizer as tokenizers
from remedy.models.tokenizer import TraceTokenizer
from remedy.models.tokenizer_backends import AnyTokenizer
from remedy.owner import owned
from remedy.processes import worker_pool
from remedy.settings import Configuration, UserError


class MeasureConfig(Configuration):
    """Settings of a measurement: programs, tokenizers and forms of traces."""

    sources: tuple[ProgramsTask, ...] = Field(min_length=1)
    """Sets of programs, each like a `programs` task."""
    tokenizers: dict[str, AnyTokenizer] = {}
    """Tokenizers to count with, by their names in reports."""
    checkpoints: tuple[str, ...] = ()
    """Runs whose tokenizers are counted too; a report then shows a run's failures beside how its tokenizer cuts strings."""
    costs: CostSettings = CostSettings()
    """The forms of each trace to count."""

    @model_validator(mode="after")
    def _some(self) -> MeasureConfig:
        if not self.tokenizers and not self.checkpoints:
            raise ValueError("nothing to count with: give `tokenizers` or `checkpoints`")
        for name, config in self.tokenizers.items():
            if config.needs_data:
                raise ValueError(
                    f"tokenizers.{name}: kind {config.kind} belongs to a run's data: give the run in `checkpoints`"
                )
        for number, source in enumerate(self.sources):
            if source.held_out_programs:
                raise ValueError(
                    f"sources.{number}.held_out_programs does nothing here, since all programs are measured: remove it"
                )
        if len(set(map(source_name, self.sources))) < len(self.sources):
            raise ValueError("sources: two of them hold the same programs: remove one")
        return self


def source_name(source: ProgramsTask) -> str:
    name = source.benchmark or str(source.path)
    return f"{name}, rewritten ({', '.join(source.rewrites)})" if source.rewrites else name


def measure(
    config: MeasureConfig, directory: Path, workers: int = 1, progress: Callable[[str], None] = lambda message: None
) -> Path:
    """Measure every program; return the path of `measure.json`.

    Raises:
        UserError: the folder holds another measurement or is in use, or programs or a tokenizer cannot be read.
    """
    import pandas as pd  # here, since settings are read without it

    request, path = config.model_dump(mode="json"), directory / REQUEST
    with owned(directory):
        if path.exists() and read_json(path, "choose another --out or delete the folder")["config"] != request:
            raise UserError(f"{directory}: holds another measurement; choose another --out or delete it")
        counters = load_tokenizers(config)
        cases = [(source, case) for source in config.sources for case in load_cases(source)]
        tokens: list[dict[str, Any]] = []
        patterns: list[dict[str, Any]] = []
        for count, (token_part, pattern_part) in enumerate(_measured(config, cases, workers), start=1):
            tokens += token_part
            patterns += pattern_part
            if count % 100 == 0 or count == len(cases):
                progress(f"{count}/{len(cases)} programs")
        pythons, isolations = zip(*(environment(source.tracer) for source in config.sources))
        metadata = {
            "config": request,
            "tokenizers": {name: tokenizer.fingerprint for name, tokenizer in counters.items()},
            "python": ", ".join(dict.fromkeys(pythons)),
            "isolation": ", ".join(dict.fromkeys(isolations)),
        }
        pattern_table = pd.DataFrame(patterns, columns=None if patterns else ["tokenizer"])
        for name, table in ((TOKENS, pd.DataFrame(tokens)), (PATTERNS, pattern_table)):
            write_table(directory / name, pa.Table.from_pandas(table), digest_of(metadata))
        write_json(path, metadata)
    return path


Rows = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def _measured(config: MeasureConfig, cases: Sequence[tuple[ProgramsTask, Case]], workers: int) -> Iterable[Rows]:
    if workers == 1:
        _start_worker(config)
        yield from map(_measure_one, cases)
        return
    with worker_pool(workers, _start_worker, config) as pool:
        yield from pool.map(_measure_one, cases, chunksize=8)


# A worker loads tokenizers once, not for each program.
_worker: tuple[MeasureConfig, dict[str, TraceTokenizer]] | None = None


def _start_worker(config: MeasureConfig) -> None:
    global _worker
    _worker = config, load_tokenizers(config)


def _measure_one(pair: tuple[ProgramsTask, Case]) -> Rows:
    assert _worker is not None
    (config, counters), (source, case) = _worker, pair
    outcome = trace_one(case.program, source.tracer)
    labels = {
        "benchmark": source_name(source),
        "source": case.id,
        "example": f"{text_hash(case.identity):016x}",
        "cluster": f"{text_hash(case.group):016x}",
        "outcome": getattr(outcome, "kind", "ok"),
    }
    tokens = token_rows(outcome, case.program, config.costs, source.tracer, counters)
    patterns = pattern_rows(case.program, source.tracer, counters)
    return [labels | row for row in tokens], [labels | row for row in patterns]


def load_tokenizers(config: MeasureConfig) -> dict[str, TraceTokenizer]:
    built = {name: tokenizers.build_tokenizer(settings) for name, settings in config.tokenizers.items()}
    return built | {checkpoint: tokenizers.load(Path(checkpoint)) for checkpoint in config.checkpoints}
