"""Examples with their tokens, whose number can decide the reveal."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from remedy.data_gen.config import DataConfig
from remedy.data_gen.example_table import table_of, table_of_arrays
from remedy.data_gen.examples import Example, Execution, collector_paused, executions, token_arrays, write
from remedy.models.tokenizer import Encoded, TraceTokenizer


def example_table(data: DataConfig, tokenizer: TraceTokenizer, split: str, indices: Sequence[int]) -> pa.Table:
    """Return the examples at the indices as rows of a data set.

    Raises:
        ConfigError, TokenizerError: as `encoded_examples`.
    """
    arrays = token_arrays(data, split, indices) if tokenizer.settings.kind == "symbols" else None
    if arrays is not None:
        return table_of_arrays(arrays, indices)
    with collector_paused():
        return table_of(encoded_examples(data, tokenizer, split, indices))


def encoded_examples(
    data: DataConfig, tokenizer: TraceTokenizer, split: str, indices: Sequence[int], workers: int = 1
) -> list[tuple[Example, Encoded]]:
    """Return examples with their tokens, in the densest reveal within `reveal.max_tokens`.

    Raises:
        ConfigError: as `executions`.
        TokenizerError: as `TraceTokenizer.encode`.
    """
    with collector_paused():
        done = executions(data, split, indices, workers)
        return [encoded_execution(execution, data, tokenizer) for execution in done]


def encoded_execution(execution: Execution, data: DataConfig, tokenizer: TraceTokenizer) -> tuple[Example, Encoded]:
    """Return the example of an execution with its tokens.

    Raises:
        TokenizerError: as `TraceTokenizer.encode`.
    """
    example = write(execution, data, tokenizer.count)
    return example, tokenizer.encode(example.spans)
