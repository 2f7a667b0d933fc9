"""Export of a benchmark: examples, card, scorer, tasks for lm-eval and inspect_ai."""

from __future__ import annotations

import json
import platform
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from jinja2 import Environment, StrictUndefined

from remedy.checksums import digest_of
from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example, examples
from remedy.data_gen.roles import Role, Span
from remedy.data_gen.tasks import Task
from remedy.data_gen.tasks.programs import ProgramsTask, load_cases
from remedy.data_gen.traces.comparison import spells_tokens
from remedy.eval.conditions import CheckpointInfo, conditions_of
from remedy.eval.config import EvalConfig
from remedy.eval.diagnostics import Condition
from remedy.eval.scoring.frames import answer_indices
from remedy.files import file_name, write_text
from remedy.messages import shown
from remedy.models.card import cell, without_paths
from remedy.plugins import plugins_section
from remedy.settings import ConfigError, UserError, apply_changes, build

PACKAGE = "cwm_benchmark"
"""The package in an exported folder, with the scorer and the tasks of inspect_ai."""
MODULES = (
    "remedy.data_gen.execution.program",
    "remedy.data_gen.roles",
    "remedy.data_gen.traces.comparison",
    "remedy.data_gen.traces.frames",
    "remedy.data_gen.traces.parse",
    "remedy.data_gen.traces.repl",
    "remedy.data_gen.traces.spans",
    "remedy.data_gen.traces.string_encodings",
    "remedy.data_gen.traces.values",
    "remedy.eval.benchmark.scorer",
)
"""Modules of the scorer, copied with relative imports. A stub replaces registries, which only settings need."""
_IMPORT = re.compile(r"^from remedy\.(?:\w+\.)*(\w+) import", re.MULTILINE)
SHOTS = 4
"""Training examples that show a model the form."""
LONGEST = 12_000
"""Characters of a trace, a few thousand tokens: real programs may run for millions."""
TOO_LONG = f"longer than {LONGEST:,} characters"
NOTICES = {
    "cruxeval": ("https://github.com/facebookresearch/cruxeval", "Copyright (c) 2023 Meta"),
    "humaneval": ("https://github.com/openai/human-eval", "Copyright (c) OpenAI (https://openai.com)"),
}
"""Sources of published programs under the MIT licence, which requires its notice in every copy."""
_MIT = {"MIT", *(f"MIT, {source}" for source, _ in NOTICES.values())}
QUESTIONS = {
    True: "What are the values of all variables at the end? Reply with one line of the form `{form}`, and nothing else.",
    False: "What does the function marked START_OF_TRACE return? Reply with the value alone, as Python's repr writes it.",
}
"""Questions by: is the answer a state?"""


class ExampleSet(NamedTuple):
    """The examples of one evaluation; `left_out`: counts by reason."""

    name: str
    config: EvalConfig
    data: DataConfig
    rows: list[dict[str, Any]]
    shots: list[dict[str, Any]]
    left_out: Counter[str]
    licences: list[str]

    @property
    def other_licences(self) -> list[str]:
        return [licence for licence in self.licences if licence not in _MIT]

    def left_out_text(self) -> str:
        return ", ".join(f"{count} {reason}" for reason, count in self.left_out.items()) or "none"

    @property
    def most_tokens(self) -> int:
        """Enough tokens for the longest trace, at two characters a token."""
        return 64 + max((len(row["trace"]) for row in self.rows), default=0) // 2


def export_benchmark(configs: Mapping[str, EvalConfig], out: Path) -> Path:
    """Write named evaluations as a benchmark; return the card's path.

    Raises:
        UserError: the folder is not empty, or as `freeze`.
    """
    if out.exists() and any(out.iterdir()):
        raise UserError(f"{out}: is not empty: choose a new folder")
    example_sets = [freeze(file_name(name), config) for name, config in configs.items()]
    for example_set in example_sets:
        name = example_set.name
        _write_lines(out / "data" / f"{name}.jsonl", example_set.rows)
        if example_set.shots:
            _write_lines(out / "data" / "shots" / f"{name}.jsonl", example_set.shots)
        for form in ("trace", "answer"):
            _render("lm_eval_task.yaml", out / "lm_eval" / f"{name}_{form}.yaml", example_set=example_set, form=form)
        # At least what the longest true trace takes, as in the tasks of other harnesses.
        budget = {"max_new_tokens": max(example_set.config.max_new_tokens or 0, example_set.most_tokens)}
        settings = without_paths(example_set.config.changed(budget).model_dump(mode="json"))
        text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
        write_text(out / "evaluate" / f"{name}.yaml", text)
    _render("utils.py", out / "lm_eval" / "utils.py")
    for name in ("__init__.py", "__main__.py", "inspect_tasks.py"):
        _render(name, out / PACKAGE / name, most=max((part.most_tokens for part in example_sets), default=0))
    copy_scorer(out / PACKAGE)
    licences = {licence for part in example_sets for licence in part.licences}
    facts = {
        "example_sets": example_sets,
        "digests": {part.name: digest_of({"rows": part.rows}) for part in example_sets},
        "notices": NOTICES,
        "absent": {name: source for name, source in NOTICES.items() if f"MIT, {source[0]}" not in licences},
        "all_mit": licences <= _MIT,
        "python": platform.python_version(),
        "version": version("cwm-remedy"),
        "plugins": plugins_section(),
    }
    for name in ("README.md", "LICENSE", "pyproject.toml"):
        _render(name, out / name, **facts)
    return out / "README.md"


def freeze(name: str, config: EvalConfig) -> ExampleSet:
    """Make the examples of an evaluation's conditions.

    Raises:
        ConfigError: its `set` holds no data, or traces are not whole sessions in text.
    """
    if "task" not in config.set:
        raise ConfigError(f"{name}: set: needs the data configuration with its task: no checkpoint gives one here")
    data = build(DataConfig, apply_changes({}, config.set, "set"), f"{name}: set")
    conditions = conditions_of(config, CheckpointInfo(data))
    licences = dict.fromkeys(licence for condition in conditions for licence in licences_of(condition.data.task))
    example_set = ExampleSet(name, _anywhere(config, data), data, [], [], Counter(), list(licences))
    for condition in conditions:
        _refuse(name, condition)
        part = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in condition.own_labels.items())
        for example in examples(condition.data, condition.split, range(condition.examples)):
            if reason := _unfit(example):
                example_set.left_out[reason] += 1
            else:
                labels = {"id": f"{condition.slug}/{example.index}", "part": part, **condition.own_labels}
                example_set.rows.append({**labels, **row(example)})
    if data.task.count("train") is None:
        example_set.shots.extend(map(row, examples(conditions[0].data, "train", range(SHOTS))))
    return example_set


def _unfit(example: Example) -> str:
    if example.outcome != "ok":
        return example.outcome
    if spells_tokens(example.spans):
        return "spells a token"
    if len(answer_indices(example)) > 1:
        return "raised"
    return TOO_LONG if len(row(example)["trace"]) > LONGEST else ""


def licences_of(task: Task) -> list[str]:
    if not isinstance(task, ProgramsTask):
        return ["MIT" if type(task).__module__.startswith("remedy.") else "that of its plug-in"]
    if task.benchmark in NOTICES:
        return [f"MIT, {NOTICES[task.benchmark][0]}"]
    return sorted({cell(case.licence or "that of its source") for case in load_cases(task)})


def _anywhere(config: EvalConfig, data: DataConfig) -> EvalConfig:
    """Return the configuration without a published benchmark's path on this machine."""
    if not isinstance(data.task, ProgramsTask) or data.task.benchmark is None:
        return config
    settings = apply_changes({}, config.set, "set")
    settings["task"].pop("path", None)
    return config.changed({"set": settings})


def row(example: Example) -> dict[str, Any]:
    """Write an example as prompts, true trace and true answer."""
    context = [span for span in example.spans if span.role is Role.CONTEXT]
    state = example.answer_in_state or bool(example.trace.setup)
    names = ",".join(f"{pair.split('=')[0]}=..." for pair in example.answer.split(",")) if state else ""
    return {
        "prompt": "".join(_texts(context, special=True)),
        "question": f"{''.join(_texts(context))}\n\n{QUESTIONS[state].format(form=names)}\n",
        "trace": "".join(_texts([span for span in example.spans if span.role is not Role.CONTEXT])),
        "answer": example.answer,
        "answer_frames": answer_indices(example),
        "cluster": example.cluster,
    }


def _texts(spans: Sequence[Span], special: bool = False) -> Iterator[str]:
    """Yield the texts of spans; `special`: also special tokens."""
    for number, span in enumerate(spans):
        if isinstance(span.piece, str):
            yield span.piece
        elif special and number:  # tokenizers add the first themselves
            yield span.piece.value


def _refuse(name: str, condition: Condition) -> None:
    data = condition.data
    path = data.task.path if isinstance(data.task, ProgramsTask) and data.task.benchmark is None else None
    if path is not None and Path(path).is_absolute():
        raise ConfigError(
            f"{name}: {shown(path)} is a place on this machine, which examples would name to others: give a relative path"
        )
    for key, needed in {"format": "repl", "context": True, "memory": None, "string_encoding": "plain"}.items():
        if (value := getattr(data, key)) != needed:
            raise ConfigError(f"{name}: {key} is {shown(value)}, and a benchmark in text needs {shown(needed)}")
    if condition.forcing != "free":
        raise ConfigError(f"{name}: forcing {condition.forcing}: other harnesses decode freely: write forcing: [free]")


def copy_scorer(folder: Path) -> None:
    """Copy the modules that judge traces, with imports of each other only."""
    for module in MODULES:
        source = Path(str(import_module(module).__file__)).read_text(encoding="utf-8")
        path = folder / f"{module.rpartition('.')[2]}.py"
        copied = _IMPORT.sub(r"from .\1 import", source)
        write_text(path, f"# A copy of {module}; see README.md\n{copied}")
    _render("registry.py", folder / "registry.py")


def _write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))


def _render(name: str, path: Path, **facts: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    environment = Environment(
        undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True
    )  # no escaping: text, not HTML
    template = (files("remedy.eval.benchmark") / f"{name}.j2").read_text(encoding="utf-8")
    write_text(path, environment.from_string(template).render(**facts, package=PACKAGE, shots=SHOTS, longest=LONGEST))
