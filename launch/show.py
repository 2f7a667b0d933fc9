"""`remedy show`: an example, token by token and coloured by role."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from rich.console import Console

from remedy.data_gen.examples import Example
from remedy.data_gen.files import replace_file
from remedy.data_gen.roles import Span
from remedy.data_gen.settings import ConfigError, apply_changes, load, parse_overrides, read_yaml, suggest
from remedy.data_gen.splits import SPLITS
from remedy.eval.view.page import page
from remedy.eval.view.structure import Part, View, blocks_of, tokens_of
from remedy.eval.view.terminal import show_view
from remedy.eval.view.text import token_texts
from remedy.launch.generate import GenerateConfig
from remedy.models.encoding import encoded_examples
from remedy.models.tokenizer import build_tokenizer
from remedy.train.config import RunConfig, TrainSettings


def show(
    source: str,
    overrides: Sequence[str],
    index: int,
    split: str,
    ids: bool,
    html: Path | None,
    console: Console,
) -> None:
    """Print the view, or write it as a page.

    Raises:
        UserError: the source is neither configuration nor evaluation, or holds nothing at this index, row or condition.
    """
    view = config_view(source, overrides, index, split)
    if html is None:
        show_view(view, console, ids)
        return
    text = page(view, ids)
    replace_file(html, lambda partial: partial.write_text(text, encoding="utf-8"))
    console.print(f"page: {html}", markup=False, highlight=False, soft_wrap=True)


def config_view(source: str, overrides: Sequence[str], index: int, split: str) -> View:
    """An example of a configuration.

    Raises:
        UserError: as `show`.
    """
    settings = _load(Path(source), overrides)
    return example_view(settings, index, split, Path(source).name)


def _load(path: Path, overrides: Sequence[str]) -> GenerateConfig | RunConfig:
    """The configuration of a data set or of a training run, told by its keys."""
    if path.is_dir():
        inside = path / "config.yaml"
        raise ConfigError(f"{path}: is a folder" + (f"; its data: remedy show {inside}" if inside.exists() else ""))
    keys = apply_changes(read_yaml(path), parse_overrides(overrides), "override").keys()
    others = {"groups": "an experiment", "diagnostics": "an evaluation", "sources": "a measurement"}
    for key, what in others.items():
        if key in keys:
            raise ConfigError(f"{path}: is the configuration of {what}; show takes one with `data` and `tokenizer`")
    kind: type[GenerateConfig] | type[RunConfig]
    kind = GenerateConfig if keys <= GenerateConfig.model_fields.keys() else RunConfig
    return load(kind, path, overrides)


def example_view(settings: GenerateConfig | RunConfig, index: int, split: str, name: str) -> View:
    """One example; supervised is what the run trains on, or what runs train on by default.

    Raises:
        UserError: there is no such split or index, or the tokenizer cannot be built.
    """
    data = settings.data
    splits = [*SPLITS, "all"]
    if split not in splits:
        raise ConfigError(f"--split {split!r}: {suggest(split, splits)}")
    count = data.task.count(split)
    if split == "all" and count is None:
        raise ConfigError(f"--split all: of the programs task only; here {', '.join(SPLITS)}")
    if count is not None and index >= count:
        raise ConfigError(f"--index {index}: the {split} split has {count} examples, numbered from 0")
    tokenizer = build_tokenizer(settings.tokenizer, data)
    [(example, (ids, given, frames))] = encoded_examples(data, tokenizer, split, [index])
    strings = _in_strings(example.spans, token_texts(tokenizer, ids))
    roles = (settings.train if isinstance(settings, RunConfig) else TrainSettings()).supervised()
    tokens = tokens_of(tokenizer, ids, given, frames, strings, [role in roles for role in given])
    facts = {"split": split, "format": data.format, "tokenizer": tokenizer.settings.kind, **_facts(example)}
    labels = {len(example.trace.frames): "end"}
    return View(f"Example {index} of {name}", (Part("", blocks_of(tokens, labels)),), facts)


def _in_strings(spans: Sequence[Span], texts: Sequence[str]) -> list[bool]:
    """Which tokens, given by their texts, overlap the text of a string value."""
    marks: list[bool] = []
    for span in spans:
        marks += [span.string] * len(span.piece if isinstance(span.piece, str) else span.piece.value)
    ends = list(accumulate(map(len, texts)))
    return [any(marks[end - len(text) : end]) for text, end in zip(texts, ends)]


def _facts(example: Example) -> dict[str, str]:
    outcome = {} if example.outcome == "ok" else {"outcome": example.outcome}
    answer = {"answer": example.answer} if example.answer else {}
    return {**{key.replace("_", " "): str(value) for key, value in example.slices.items()}, **outcome, **answer}
