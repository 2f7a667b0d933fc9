"""A task of your own: programs that count down.

How to add: write a subclass of `Task` with `draw` and `describe`, register it, and give this file by `--plugin`. Its
fields are settings of `data.task`.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from remedy import rng
from remedy.data_gen.execution.program import Program
from remedy.data_gen.splits import SPLITS, split_of, text_hash
from remedy.data_gen.tasks.task import MAX_ATTEMPTS, TASKS, Drawn, Task, too_few_programs

CODE = "def f(n):\n    while n:\n        n -= 1\n    return n"


@TASKS.register("countdown")
class CountdownTask(Task):
    """Programs that count down to zero."""

    kind: Literal["countdown"] = "countdown"
    high: int = Field(default=40, ge=30)
    """The largest number to count down from."""

    def draw(self, split: str, indices: Sequence[int], seed: int, session: bool) -> list[Drawn]:
        return [self._draw(split, index, seed) for index in indices]

    def describe(self) -> str:
        return f"Countdowns from at most {self.high}"

    def _draw(self, split: str, index: int, seed: int) -> Drawn:
        """Draw until a program's hash picks the split that is asked for: no program is in two splits."""
        for attempt in range(MAX_ATTEMPTS):
            key = rng.key(seed, SPLITS[split].stream, index, attempt)
            number = rng.Draws(key).integer(0, self.high)
            program = Program.from_call(CODE, str(number))
            if split_of(text_hash(program.code)) == split:
                return Drawn(program, program.code, key, {"from": number})
        raise too_few_programs(self, split)
