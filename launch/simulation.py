"""A program traced by a model, beside the true trace if it is known."""

from __future__ import annotations

import time
from dataclasses import replace

import torch

from remedy.data_gen.examples import Example, Execution, executions
from remedy.data_gen.execution.program import Event
from remedy.data_gen.prompts import prompt_spans
from remedy.data_gen.roles import Role, Span, Special
from remedy.data_gen.splits import ALL
from remedy.data_gen.traces.cwm import Cwm
from remedy.data_gen.traces.parse import ReadFrame, ReadTrace
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.checkpoint import for_checkpoint, generator_of, load_evaluated
from remedy.eval.config import EvalConfig
from remedy.eval.decoding.constraints import check_interpreter, starts_of
from remedy.eval.decoding.forcings import FREE, constraint_of, fed_roles
from remedy.eval.decoding.protocol import TokenListener
from remedy.eval.diagnostics import Condition
from remedy.eval.generators.base import MOST_NEW_TOKENS, Generator, Request
from remedy.eval.records.generations import generation
from remedy.eval.scoring.batch import decoding_options
from remedy.eval.scoring.common import ANSWER_CHARACTERS, DecodedExample
from remedy.eval.scoring.frames import score_frames
from remedy.eval.scoring.reading import generated_places
from remedy.eval.tables.sections import named
from remedy.eval.view.model import View
from remedy.eval.view.records import generation_blocks, record_view
from remedy.messages import cut
from remedy.models.encoding import encoded_execution
from remedy.models.tokenizer import Encoded, TraceTokenizer
from remedy.settings import ConfigError, UserError


def simulated(checkpoint: str, config: EvalConfig, check: bool, listener: TokenListener) -> View:
    """Have a checkpoint write a program's trace; `check` runs the program too.

    Raises:
        UserError: checkpoint or program cannot be read, or do not fit the settings or each other.
    """
    [diagnostic] = config.diagnostics
    [forcing] = diagnostic.forcing
    data = for_checkpoint(checkpoint, config).data
    if FORMATS[data.format].one_token:
        raise ConfigError(f"{checkpoint}: data.format {data.format}: no trace of a program is written so: use another")
    if fed_roles(forcing) != FREE and not check:
        raise ConfigError(f"--forcing {forcing}: feeds what only a run of the program tells: give --check")
    condition = diagnostic.condition(data, forcing, 1, ALL, benchmark=data.task.name, rewrite="none")
    if constraint := constraint_of(forcing):
        check_interpreter(constraint, data)
    [execution] = executions(data, ALL, [0], run=check)
    prompt_spans(execution.drawn.program, data)  # raises for a bad program before weights are loaded
    if config.threads:
        torch.set_num_threads(config.threads)
    model, tokenizer = load_evaluated(checkpoint, config)
    generator = generator_of(model, tokenizer, config, checkpoint)
    start = time.perf_counter()
    most = config.max_new_tokens or MOST_NEW_TOKENS  # the program may have no true trace
    view = written_view(generator, tokenizer, condition, execution, most, listener)
    view.facts["wrote"] += f", {time.perf_counter() - start:.1f} s"
    return view


def prepared(execution: Execution, condition: Condition, tokenizer: TraceTokenizer) -> tuple[Example, Encoded]:
    """Return the program's example and tokens; untraced, its prompt and the end."""
    example, truth = encoded_execution(execution, condition.data, tokenizer)
    if example.outcome == "ok":
        return example, truth
    context = prompt_spans(execution.drawn.program, condition.data)
    truth = tokenizer.encode([*context, Span(Role.STRUCTURE, Special.END_OF_TEXT, 0)])
    return replace(example, spans=context), truth


def written_view(
    generator: Generator,
    tokenizer: TraceTokenizer,
    condition: Condition,
    execution: Execution,
    max_new_tokens: int,
    listener: TokenListener,
) -> View:
    """Have a model write a program's trace; view it beside the true one, if known.

    Raises:
        UserError: the program's control flow cannot be read, or the prompt is longer than the model's limit.
    """
    data, forcing = condition.data, condition.forcing
    example, truth = prepared(execution, condition, tokenizer)
    if generator.limit is not None and (length := truth.roles.count(Role.CONTEXT)) > generator.limit:
        raise UserError(f"{generator.name}: reads {generator.limit:,} tokens, and the program's prompt has {length:,}")
    constraint = constraint_of(forcing)
    [start] = starts_of(constraint, [example], data, tokenizer) if constraint else [None]
    [written] = generator.generate([Request(truth, start, listener)], decoding_options(condition, max_new_tokens))
    decoded = DecodedExample(example, truth, written.runs, fed_roles(forcing), data)
    ids = decoded.written(written.runs)
    places = generated_places(decoded, tokenizer)
    generated = generation(0, tokenizer.decode(ids), written.runs, places, tokenizer, truth, written.near_ties)
    read = FORMATS[data.format].read(tokenizer.pieces(ids), data.reveal.answer_only)
    tokens_written = sum(run.written_count for run in written.runs)
    wrote = {
        "frames": len(read.frames),
        "tokens written": tokens_written,
        "were certain": len(generated["ids"]) - tokens_written,
    }
    shared = {name: label for name, label in condition.labels.items() if name not in condition.own_labels}
    facts = {
        "model": generator.name,
        "trace": named({**shared, "memory": str(data.memory or "")}, [*shared, "memory"]),
        "truth": f"not known: {example.outcome if execution.kind == 'ok' else execution.outcome}",
        "wrote": ", ".join(f"{n:,} {noun}" for noun, n in {**wrote, "near ties": written.near_ties}.items() if n),
        **_answer(read, all(run.complete for run in written.runs)),
    }
    title = f"{example.trace.program.name}, simulated"
    if example.outcome == "ok":
        record = {**score_frames(decoded, tokenizer), "format": data.format, "forcing": forcing, "condition": title}
        view = record_view({**record, "index": 0, "outcome": "ok", "source": ""}, generated)
        return replace(view, title=title, facts={**facts, "truth": "from a run", **view.facts})
    form = FORMATS[data.format]
    first = int(isinstance(form, Cwm) and form.seeded)  # the prompt holds the first frame
    return View(title, generation_blocks(generated, first), facts, "written")


def _answer(read: ReadTrace, complete: bool) -> dict[str, str]:
    """Say what a trace returns or raises, or why nothing."""
    if not read.valid:
        reason = read.problem or "the end is missing"
        return {"no answer": reason if complete else "the limit on tokens came first"}
    match read.frames:
        case [*_, ReadFrame(event=Event.EXCEPTION, value=str(answer)), ReadFrame(event=Event.RETURN, value="None")] | [
            *_,
            ReadFrame(value=str(answer)),
        ]:
            return {"answer": cut(answer, ANSWER_CHARACTERS)}
    return {"answer": "none"}
