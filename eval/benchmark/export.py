"""Freeze the conditions of evaluations as a benchmark's folder: examples, a card, tasks for lm-eval and inspect_ai, and the scorer.

The folder installs as a package without dependencies, which holds the examples and names its tasks to inspect_ai."""

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
from remedy.data_gen.traces.judge import spells_tokens
from remedy.eval.checkpoint import Subject
from remedy.eval.conditions import conditions_of
from remedy.eval.config import EvalConfig
from remedy.eval.diagnostics import Condition
from remedy.eval.scoring.frames import answer_places
from remedy.files import file_name, write_text
from remedy.messages import shown
from remedy.models.card import cell, without_paths
from remedy.plugins import plugins_section
from remedy.settings import ConfigError, UserError, apply_changes, build

PACKAGE = "cwm_benchmark"
"""The package in an exported folder: the scorer, and the tasks of inspect_ai."""
MODULES = (
    "remedy.data_gen.execution.program",
    "remedy.data_gen.roles",
    "remedy.data_gen.traces.frames",
    "remedy.data_gen.traces.judge",
    "remedy.data_gen.traces.parse",
    "remedy.data_gen.traces.repl",
    "remedy.data_gen.traces.spans",
    "remedy.data_gen.traces.string_encodings",
    "remedy.data_gen.traces.values",
    "remedy.eval.benchmark.scorer",
)
"""What the scorer is made of, copied with relative imports; registries, which settings need, are left out of it."""
_IMPORT = re.compile(r"^from remedy\.(?:\w+\.)*(\w+) import", re.MULTILINE)
SHOTS = 4
"""Training examples that show the form."""
LONGEST = 12_000
"""Characters of a trace: real programs run for millions, and models read a few thousand tokens."""
TOO_LONG = f"longer than {LONGEST:,} characters"
NOTICES = {
    "cruxeval": ("https://github.com/facebookresearch/cruxeval", "Copyright (c) 2023 Meta"),
    "humaneval": ("https://github.com/openai/human-eval", "Copyright (c) OpenAI (https://openai.com)"),
}
"""Sources of published programs under the MIT licence, which asks for its notice in every copy."""
_MIT = {"MIT", *(f"MIT, {source}" for source, _ in NOTICES.values())}
QUESTIONS = {
    True: "What are the values of all variables at the end? Reply with one line of the form `{form}`, and nothing else.",
    False: "What does the function marked START_OF_TRACE return? Reply with the value alone, as Python's repr writes it.",
}
"""By whether the answer is a state."""


class Frozen(NamedTuple):
    """One configuration's examples. `left_out`: how many have no such answer, by the reason; `licences`: of its programs."""

    name: str
    config: EvalConfig
    data: DataConfig
    rows: list[dict[str, Any]]
    shots: list[dict[str, Any]]
    left_out: Counter[str]
    licences: list[str]

    @property
    def other_licences(self) -> list[str]:
        """Those that are not MIT."""
        return [licence for licence in self.licences if licence not in _MIT]

    def said_left_out(self) -> str:
        """Say in words how many are left out, and why."""
        return ", ".join(f"{count} {why}" for why, count in self.left_out.items()) or "none"

    @property
    def most_tokens(self) -> int:
        """Enough for its longest trace: of such text, tokenizers take two characters and more at a time."""
        return 64 + max((len(row["trace"]) for row in self.rows), default=0) // 2


def export_benchmark(configs: Mapping[str, EvalConfig], out: Path) -> Path:
    """Write the benchmark of evaluations, each under a name; returns the card's path.

    Raises:
        UserError: the folder is not empty, or a configuration does not spell out its data or has no text form.
    """
    if out.exists() and any(out.iterdir()):
        raise UserError(f"{out}: is not empty: choose a new folder")
    frozen = [freeze(file_name(name), config) for name, config in configs.items()]
    for one in frozen:
        _write_lines(out / "data" / f"{one.name}.jsonl", one.rows)
        if one.shots:
            _write_lines(out / "data" / "shots" / f"{one.name}.jsonl", one.shots)
        for form in ("trace", "answer"):
            _render("lm_eval_task.yaml", out / "lm_eval" / f"{one.name}_{form}.yaml", one=one, form=form)
        budget = {"max_new_tokens": max(one.config.max_new_tokens, one.most_tokens)}
        settings = without_paths(one.config.changed(budget).model_dump(mode="json"))
        text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
        write_text(out / "evaluate" / f"{one.name}.yaml", text)
    _render("utils.py", out / "lm_eval" / "utils.py")
    for name in ("__init__.py", "__main__.py", "inspect_tasks.py"):
        _render(name, out / PACKAGE / name, most=max((one.most_tokens for one in frozen), default=0))
    copy_scorer(out / PACKAGE)
    about = {"python": platform.python_version(), "version": version("cwm-remedy"), "plugins": plugins_section()}
    digests = {one.name: digest_of({"rows": one.rows}) for one in frozen}
    licences = {licence for one in frozen for licence in one.licences}
    absent = {name: facts for name, facts in NOTICES.items() if f"MIT, {facts[0]}" not in licences}
    free = {"notices": NOTICES, "absent": absent, "all_mit": licences <= _MIT}
    for name in ("README.md", "LICENSE", "pyproject.toml"):
        _render(name, out / name, frozen=frozen, digests=digests, **free, **about)
    return out / "README.md"


def freeze(name: str, config: EvalConfig) -> Frozen:
    """Make the examples of an evaluation's conditions.

    Raises:
        ConfigError: its `set` holds no data, or a condition's traces are not whole sessions in text.
    """
    if "task" not in config.set:
        raise ConfigError(f"{name}: set: needs the data configuration with its task: no checkpoint gives one here")
    data = build(DataConfig, apply_changes({}, config.set, "set"), f"{name}: set")
    conditions = conditions_of(config, Subject(data))
    licences = dict.fromkeys(one for condition in conditions for one in licences_of(condition.data.task))
    found = Frozen(name, _anywhere(config, data), data, [], [], Counter(), list(licences))
    for condition in conditions:
        _refuse(name, condition)
        said = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in condition.own_labels.items())
        for example in examples(condition.data, condition.split, range(condition.examples)):
            reason = "" if example.outcome == "ok" else example.outcome
            if not reason and spells_tokens(example.spans):
                reason = "spells a token"
            elif not reason and len(answer_places(example)) > 1:
                reason = "raised"
            frozen = {} if reason else row(example)
            if not reason and len(frozen["trace"]) > LONGEST:
                reason = TOO_LONG
            if reason:
                found.left_out[reason] += 1
                continue
            labels = {"id": f"{condition.slug}/{example.index}", "part": said, **condition.own_labels}
            found.rows.append({**labels, **frozen})
    if data.task.count("train") is None:
        found.shots.extend(map(row, examples(conditions[0].data, "train", range(SHOTS))))
    return found


def licences_of(task: Task) -> list[str]:
    """The licences of a task's programs, as far as they are known."""
    if not isinstance(task, ProgramsTask):
        return ["MIT" if type(task).__module__.startswith("remedy.") else "that of its plug-in"]
    if task.benchmark in NOTICES:
        return [f"MIT, {NOTICES[task.benchmark][0]}"]
    return sorted({cell(case.licence or "that of its source") for case in load_cases(task)})


def _anywhere(config: EvalConfig, data: DataConfig) -> EvalConfig:
    """The configuration without the path of a published benchmark's file on this machine: others have it from the hub, or elsewhere."""
    if not isinstance(data.task, ProgramsTask) or data.task.benchmark is None:
        return config
    settings = apply_changes({}, config.set, "set")
    settings["task"].pop("path", None)
    return config.changed({"set": settings})


def row(example: Example) -> dict[str, Any]:
    """One example as text: prompts, true trace and true answer."""
    context = [span for span in example.spans if span.role is Role.CONTEXT]
    state = example.answer_in_state or bool(example.trace.setup)
    names = ",".join(f"{pair.split('=')[0]}=..." for pair in example.answer.split(",")) if state else ""
    return {
        "prompt": "".join(_texts(context, special=True)),
        "question": f"{''.join(_texts(context))}\n\n{QUESTIONS[state].format(form=names)}\n",
        "trace": "".join(_texts([span for span in example.spans if span.role is not Role.CONTEXT])),
        "answer": example.answer,
        "answer_frames": answer_places(example),
        "cluster": example.cluster,
    }


def _texts(spans: Sequence[Span], special: bool = False) -> Iterator[str]:
    """The texts of spans. `special`: special tokens too, spelled out, but the first, which tokenizers add."""
    for place, span in enumerate(spans):
        if isinstance(span.piece, str):
            yield span.piece
        elif special and place:
            yield span.piece.value


def _refuse(name: str, condition: Condition) -> None:
    data = condition.data
    path = data.task.path if isinstance(data.task, ProgramsTask) and data.task.benchmark is None else None
    if path is not None and Path(path).is_absolute():
        raise ConfigError(
            f"{name}: {shown(path)} is a place on this machine, which examples would name to others: give a relative path"
        )
    wanted = {"format": "repl", "context": True, "memory": None, "string_encoding": "plain"}
    for key, value in wanted.items():
        if getattr(data, key) != value:
            raise ConfigError(
                f"{name}: {key} is {shown(getattr(data, key))}, and a benchmark in text needs {shown(value)}"
            )
    if condition.forcing != "free":
        raise ConfigError(f"{name}: forcing {condition.forcing}: other harnesses decode freely: write forcing: [free]")


def copy_scorer(folder: Path) -> None:
    """Copy the modules that judge a trace, so that they import each other and Python's own alone."""
    for module in MODULES:
        source = Path(str(import_module(module).__file__)).read_text(encoding="utf-8")
        path = folder / f"{module.rpartition('.')[2]}.py"
        copied = _IMPORT.sub(r"from .\1 import", source)
        write_text(path, f"# A copy of {module}; see README.md\n{copied}")
    _render("registry.py", folder / "registry.py")


def _write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in rows))


def _render(name: str, path: Path, **facts: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)  # text, no HTML
    template = (files("remedy.eval.benchmark") / f"{name}.j2").read_text(encoding="utf-8")
    write_text(path, environment.from_string(template).render(**facts, package=PACKAGE, shots=SHOTS, longest=LONGEST))
