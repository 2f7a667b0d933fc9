"""Constraints by name; each is also a forcing.

A constraint knows the program and the format, not the true trace.
"""

from __future__ import annotations

from collections.abc import Sequence

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example
from remedy.data_gen.execution.program import MARKER, Program, ProgramError
from remedy.eval.control_flow import ControlFlow, ControlFlowError, Exceptions
from remedy.eval.decoding.control_flow import TraceGrammar
from remedy.eval.decoding.protocol import ConstraintState
from remedy.models.tokenizer import TraceTokenizer
from remedy.settings import ConfigError, UserError

CONSTRAINTS: dict[str, type[TraceGrammar]] = {"control_flow": TraceGrammar}
"""Constraints by name. To add one, name it here and in `forcings.CONSTRAINED`."""


def exceptions_of(example: Example) -> Exceptions:
    """Return which exceptions a trace may have: only caught ones if its program returns."""
    return "caught" if example.returns else "all"


def starts_of(
    constraint: str, examples: Sequence[Example], data: DataConfig, tokenizer: TraceTokenizer
) -> list[ConstraintState]:
    """Return the constraint's state at the start of each example's trace.

    Raises:
        UserError: the control flow of a program cannot be read.
    """
    starts: list[ConstraintState] = []
    for example in examples:
        program = example.trace.program
        if example.returns and example.trace.raised:
            raise UserError(f"{program.name}: the task says that it returns, and it raised: put that right in the task")
        try:
            flow = ControlFlow(program, data.task.interpreter)
            grammar = CONSTRAINTS[constraint](flow, tokenizer, data.format, example.reveal)
            starts.append(grammar.start(exceptions_of(example)))
        except (ControlFlowError, ProgramError) as error:
            raise UserError(f"forcing {constraint}: {error}; leave the program or the forcing out") from None
    return starts


def check_data(constraint: str, data: DataConfig) -> None:
    """Raise a ConfigError if traces of these data cannot be decoded under a constraint."""
    try:
        CONSTRAINTS[constraint].check(data.format, data.reveal)
    except ControlFlowError as error:
        raise ConfigError(f"forcing {constraint}: {error}") from None
    if data.reveal.max_tokens is not None:
        raise ConfigError(
            f"forcing {constraint}: reveal.max_tokens: may leave frames out, and control flow goes from frame to frame: remove it"
        )


def check_interpreter(constraint: str, data: DataConfig) -> None:
    """Raise a ConfigError if the bytecode of the programs' interpreter cannot be read."""
    try:  # with the smallest program, so that only the interpreter can fail
        ControlFlow(Program(f"def main():  {MARKER}\n    pass\n"), data.task.interpreter)
    except ControlFlowError as error:
        raise ConfigError(f"forcing {constraint}: {error}") from None
