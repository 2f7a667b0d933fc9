"""Tokens of a trace by role, for every form of writing it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator

from remedy.data_gen.execution.pool import Outcome, retrace_shallower
from remedy.data_gen.execution.program import Program, ProgramError, Trace
from remedy.data_gen.execution.sandbox import TracerConfig
from remedy.data_gen.traces.budget import densest_reveal
from remedy.data_gen.traces.render import FORMATS, FormatName, render
from remedy.data_gen.traces.reveal import RevealConfig, levels, whole_spacing
from remedy.data_gen.traces.string_encodings import EncodingName
from remedy.eval.records.schema import ROLE_COLUMNS
from remedy.eval.tables.sections import text
from remedy.models.tokenizer import TraceTokenizer
from remedy.settings import Settings


class CostSettings(Settings):
    """Forms of traces to count: every combination, and the densest that fits."""

    formats: tuple[FormatName, ...] = Field(default=("cwm",), min_length=1)
    """Text forms of a trace."""
    spacings: tuple[Annotated[float, AfterValidator(whole_spacing)], ...] = Field(
        default=(1, 4, 16, float("inf")), min_length=1
    )
    """Spacings of states; `inf`: only the first and the last."""
    locals: tuple[Literal["full", "diff", "changes", "one_in_turn"], ...] = Field(
        default=("full", "diff"), min_length=1
    )
    """Contents of states: all variables; all, with `..` for unchanged values (`diff`); the same, but no state where nothing has changed
    (`changes`); or one variable in turn."""
    string_encodings: tuple[EncodingName, ...] = Field(default=("plain",), min_length=1)
    """How string values are written."""
    limits: tuple[Annotated[int, Field(ge=1, le=1_000_000_000)], ...] = (2048, 8192, 32768)
    """Token limits; the report counts the traces beyond each."""
    max_tokens: int | None = Field(default=8192, ge=1, le=1_000_000_000)
    """Also count the densest form in which program and trace have at most this many tokens; null: do not."""

    @field_validator("formats")
    @classmethod
    def _written_as_text(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if FORMATS[name].one_token:
                raise ValueError(f"in the {name} format every piece is one token whatever the tokenizer: remove it")
        return value

    @field_validator("formats", "spacings", "locals", "string_encodings", "limits")
    @classmethod
    def _different(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        if twice := [item for item in value if value.count(item) > 1]:
            raise ValueError(f"{text(twice[0])} is given twice: remove one")
        return value


def token_rows(
    outcome: Outcome,
    program: Program,
    settings: CostSettings,
    tracer: TracerConfig,
    tokenizers: Mapping[str, TraceTokenizer],
) -> Iterator[dict[str, Any]]:
    """Yield a row for every tokenizer, format, string encoding and variant.

    `variant`: `fixed`, or `densest` for the one that fits `max_tokens`. `call_depth`: of the deepest written calls;
    missing: all. `loops`: missing: all rounds. `written`: False if untraced, or if no variant fits.
    """
    for form, encoding, contents, spacing in itertools.product(
        settings.formats, settings.string_encodings, settings.locals, settings.spacings
    ):
        reveal = RevealConfig.model_validate({"spacing": spacing, "locals": contents})
        spans = render(outcome, form, reveal, string_encoding=encoding).spans if isinstance(outcome, Trace) else None
        for name, tokenizer in tokenizers.items():
            counts = None if spans is None else tokenizer.count_by_role(spans)
            yield _row(name, form, encoding, "fixed", reveal, counts)
    if settings.max_tokens is None:
        return
    retraced, reveal = retrace_shallower(program, tracer, outcome), RevealConfig(max_tokens=settings.max_tokens)
    if isinstance(outcome, ProgramError) and isinstance(retraced, Trace):
        # Too long to trace whole: it was traced down to this call depth.
        depth = max(levels(retraced.frames), default=0)
        if depth or not program.calls:  # else the answer alone is left
            reveal = reveal.changed({"call_depth": depth})
    # For each tokenizer anew, since the densest form depends on its counts.
    combinations = itertools.product(tokenizers.items(), settings.formats, settings.string_encodings)
    for (name, tokenizer), form, encoding in combinations:
        yield _row(name, form, encoding, "densest", *_fitted(retraced, reveal, form, encoding, tokenizer))


def _fitted(
    outcome: Outcome, reveal: RevealConfig, form: str, encoding: str, tokenizer: TraceTokenizer
) -> tuple[RevealConfig, list[int] | None]:
    """Return the densest variant that fits, and its tokens by role, if any."""
    if isinstance(outcome, ProgramError):
        return reveal, None

    def counts(variant: RevealConfig) -> list[int]:
        return tokenizer.count_by_role(render(outcome, form, variant, string_encoding=encoding).spans)

    chosen = densest_reveal(outcome, reveal, lambda variant: sum(counts(variant)))
    return (reveal, None) if chosen is None else (chosen, counts(chosen))


def _row(
    tokenizer: str, form: str, encoding: str, variant: str, reveal: RevealConfig, counts: Sequence[int] | None
) -> dict[str, Any]:
    return {
        "tokenizer": tokenizer,
        "format": form,
        "string_encoding": encoding,
        "variant": variant,
        "spacing": reveal.spacing,
        "locals": reveal.locals,
        "call_depth": reveal.call_depth,
        "frames": reveal.frames,
        "loops": reveal.loops,
        "written": counts is not None,
        **{column: None if counts is None else counts[role] for role, column in ROLE_COLUMNS.items()},
    }
