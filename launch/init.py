"""`remedy init`: an experiment on a user's own programs."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from remedy.data_gen.examples import untraced
from remedy.data_gen.tasks.programs import ProgramsTask, Shares
from remedy.eval.stats.power import programs_for, right_for
from remedy.files import file_name, write_text
from remedy.launch.console import target
from remedy.settings import UserError

BARS = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5)
"""Candidates for `solved_at`: the first that a run reaches with a tenth of the test functions wrong is taken."""
GOAL = 0.7
"""The `solved_at` for which the test set is enlarged."""
TEST_SHARES = (0.1, 0.2, 0.3)
"""Shares of programs for the test set: the first that reaches the goal is taken, or else the last."""
EXAMPLES = 100
"""The most test programs in the evaluation."""
FUNCTIONS = 30
"""From this number on, whole functions are dealt to splits; below it, single programs."""
EXPERIMENT = """\
# Written by `remedy init`. Do characters for strings, or states only in every fourth frame, change how well these programs are traced?
# {description}
# Its runs, and which differences it can see: remedy run {name}.yaml --plan
# To try it out: remedy run {name}.yaml max_steps=5 max_examples=4 output=runs/try
name: {quoted}
output: runs/{name}
groups:
  {quoted}:
    base:
      data:
        task: {{kind: programs, path: {path}{split}}}
        format: cwm_numbers       # actions are line numbers
        reveal: {{locals: diff}}    # states show what changed
      tokenizer: {{kind: bpe, vocab_size: 400}}
      model: {{num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4, short_convolution: true}}
      train: {{batch_size: 16, learning_rate: 4.0e-3, max_steps: 500, evaluate_every: 100, threads: 1}}
      tracking: {{report_to: []}}
    runs:
      baseline: {{}}
      characters: {{tokenizer.string_tokenization: characters}}
      sparse: {{data.reveal.spacing: 4}}
    seeds: [0, 1, 2]                # five on each side say more: remedy run ... --plan
    evaluate:
      diagnostics: [{{kind: programs, answer_only: [false], forcing: [free, teacher_forced], examples: {examples}}}]
      threads: 1
comparisons:
  - {{mitigation: characters for strings, failure: strings, primary: true{solved},
     baseline: {{run: baseline, where: {{forcing: free}}}}, treatment: {{run: characters, where: {{forcing: free}}}}}}
  - {{mitigation: a state every fourth frame, failure: token budget{solved},
     baseline: {{run: baseline, where: {{forcing: free}}}}, treatment: {{run: sparse, where: {{forcing: free}}}}}}
  - {{mitigation: "characters for strings: next states that change", failure: strings, metric: changed_state{solved},
     baseline: {{run: baseline, where: &fed {{forcing: teacher_forced}}}}, treatment: {{run: characters, where: *fed}}}}
"""


def init(
    programs: Annotated[
        str, typer.Argument(help="your programs: a JSONL file of {code, input}, or a folder of .py files")
    ],
    out: Annotated[Path | None, target("the file (default: in this folder, the programs' name with .yaml)")] = None,
) -> None:
    """Write an experiment over your own programs: a baseline, characters for strings, sparse states.

    A sample is traced first, and programs without a trace are listed.
    """
    task = ProgramsTask(path=programs)
    description = task.describe_splits()
    # Splits given in the programs' file are kept.
    if not task.has_splits:
        is_large = task.clusters("all", task.count("all")) >= FUNCTIONS
        tasks = [
            ProgramsTask(
                path=programs,
                split_by="function" if is_large else "program",
                shares=Shares(train=round(0.9 - share, 1), validation=0.1, test=share),
            )
            for share in TEST_SHARES
        ]
        task = next((sized for sized in tasks if _has_room(GOAL, test_functions(sized))), tasks[-1])
        description = task.describe_splits()
    for split in ("train", "validation", "test"):
        task.require(split, 1, "an experiment")
    name = file_name(Path(programs).stem) or "programs"
    path = out or Path(f"{name}.yaml")
    if path.exists():
        raise UserError(f"{path}: is there already; choose another --out")
    bad = untraced(task)
    parts = ", ".join(f"{name}: {share:g}" for name, share in task.shares.parts.items())
    split = "" if task.has_splits else f", split_by: {task.split_by}, shares: {{{parts}}}"
    examples, functions = min(EXAMPLES, task.count("test")), test_functions(task)
    bar = next((bar for bar in BARS if _has_room(bar, functions)), BARS[-1])
    decides = what_decides(functions, bar)
    solved = "" if bar == BARS[0] else f", solved_at: {bar}"
    quoted, quoted_path = json.dumps(name), json.dumps(programs)  # quoted, since YAML reads 2024 and no as other types
    text = EXPERIMENT.format(
        name=name,
        quoted=quoted,
        description=f"{description}\n# {decides}",
        path=quoted_path,
        split=split,
        solved=solved,
        examples=examples,
    )
    write_text(path, text)
    print(
        "\n".join([description, *bad, decides, f"wrote {path}; next: remedy run {path} --plan, then remedy run {path}"])
    )


def test_functions(task: ProgramsTask) -> int:
    """Count the functions that the evaluation tests: executions of one function count once."""
    return task.clusters("test", EXAMPLES)


def _has_room(bar: float, functions: int) -> bool:
    """Say if a run reaches a bar with a tenth of the functions wrong."""
    return right_for(bar, functions) <= 0.9 * functions


def what_decides(functions: int, bar: float) -> str:
    """Say with how many test functions right a training solves the task, or how many are missing."""
    if programs_for(bar) > functions:
        sentence = f"No training can solve it: {functions} test functions cannot show {bar:.0%}, even if all are right"
    else:
        right = right_for(bar, functions)
        sentence = f"A training solves it (solved_at {bar}) with {right} of {functions} test functions right"
    if bar >= GOAL:
        return f"{sentence}."
    enough = next(number for number in count(functions) if _has_room(GOAL, number))
    return f"{sentence}; with {enough - functions} more test functions it could be {GOAL}, at {right_for(GOAL, enough)} of {enough}."
