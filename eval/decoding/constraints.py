"""Constraints by name, each a forcing: where the traces of examples begin under one, and which data it cannot be decoded over.

A constraint is told the program and how traces are written, and nothing of the true trace.
"""

from __future__ import annotations

from collections.abc import Sequence

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example
from remedy.data_gen.execution.program import MARKER, Program, ProgramError
from remedy.eval.control_flow import ControlFlow, ControlFlowError, Exceptions
from remedy.eval.decoding.control_flow import TraceGrammar
from remedy.eval.decoding.protocol import Place
from remedy.models.tokenizer import TraceTokenizer
from remedy.settings import ConfigError, UserError

CONSTRAINTS: dict[str, type[TraceGrammar]] = {"control_flow": TraceGrammar}
"""Constraints by name. To add one, write its places, and name it here and in `forcings.CONSTRAINED`."""


def exceptions_of(example: Example) -> Exceptions:
    """Return which exceptions a trace may have: of a program that is known to return, none that nothing catches."""
    return "caught" if example.returns else "all"


def starts_of(constraint: str, examples: Sequence[Example], data: DataConfig, tokenizer: TraceTokenizer) -> list[Place]:
    """Return where the trace of each example begins.

    Raises:
        UserError: a program's control flow cannot be read.
    """
    return [_start(constraint, example, data, tokenizer) for example in examples]


def _start(constraint: str, example: Example, data: DataConfig, tokenizer: TraceTokenizer) -> Place:
    program = example.trace.program
    if example.returns and example.trace.raised:
        raise UserError(f"{program.name}: the task says that it returns, and it raised: put that right in the task")
    try:
        flow = ControlFlow(program, data.task.interpreter)
        grammar = CONSTRAINTS[constraint](flow, tokenizer, data.format, example.reveal)
        return grammar.start(exceptions_of(example))
    except (ControlFlowError, ProgramError) as error:
        raise UserError(f"forcing {constraint}: {error}; leave the program or the forcing out") from None


def check_data(constraint: str, data: DataConfig) -> None:
    """Say if traces can be decoded under a constraint, as far as the settings say.

    Raises:
        ConfigError: they cannot.
    """
    try:
        CONSTRAINTS[constraint].check(data.format, data.reveal)
    except ControlFlowError as error:
        raise ConfigError(f"forcing {constraint}: {error}") from None
    if data.reveal.max_tokens is not None:
        raise ConfigError(
            f"forcing {constraint}: reveal.max_tokens: may leave frames out, and control flow goes from frame to frame: remove it"
        )


def check_interpreter(constraint: str, data: DataConfig) -> None:
    """Say if the interpreter that runs the programs is one whose bytecode can be read.

    Raises:
        ConfigError: it is not.
    """
    try:
        ControlFlow(Program(f"def main():  {MARKER}\n    pass\n"), data.task.interpreter)
    except ControlFlowError as error:
        raise ConfigError(f"forcing {constraint}: {error}") from None
