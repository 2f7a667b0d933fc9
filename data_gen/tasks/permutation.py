"""The permutation task: commands permute the values of a few variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from remedy import rng
from remedy.data_gen.execution.program import Trace
from remedy.data_gen.splits import SEEN, in_split, stream_of
from remedy.data_gen.tasks.permutation_arrays import batch_arrays, vocabulary
from remedy.data_gen.tasks.permutation_programs import (
    Answer,
    Moves,
    PermutationBatch,
    chance,
    content_hash,
    count_pairs,
    draw_batch,
    function,
    held_out_successors,
    move_table,
    session,
)
from remedy.data_gen.tasks.task import MAX_ATTEMPTS, TASKS, Drawn, Guesses, Task, TokenArrays, too_few_programs
from remedy.data_gen.traces.reveal import DIFFS, RevealConfig
from remedy.messages import shown
from remedy.settings import low_high

LONGEST = 100_000


@TASKS.register("permutation")
class PermutationTask(Task):
    """Permutations of a few variables, command by command."""

    has_sessions = True

    kind: Literal["permutation"] = "permutation"
    n: int = Field(default=5, ge=3, le=8)
    """Number of variables."""
    moves: Moves = "full"
    """The commands: swaps of two variables, or permutations of all."""
    length: int | tuple[int, int] = 16
    """Commands of a program, fixed or drawn from [low, high]."""
    repertoire: int | tuple[int, int] | None = None
    """Number of different commands in a program, fixed or drawn from [low, high]; the fewer, the more lines repeat. Null: no
    limit."""
    distinct_values: bool = False
    """Whether the starting digits are all different (published diagnostics allow repeats)."""
    answer: Answer = "string"
    """The end of the program written as a function. It returns a string of all values; or it returns nothing, like the published
    programs, after printing one variable (`print`) or after the last command (`none`). Then the answer is the last state in the
    trace: at the print, or before the last command."""
    split_by: Literal["program", "commands"] = "program"
    """The unit that no two splits share: `program`, or the sequence of commands with any starting digits. Short programs have few
    sequences (81 of four swaps of three variables), and with `program` training has all of them. A tested sequence may still begin a
    longer one in training."""
    held_out_lengths: tuple[int, ...] = ()
    """Lengths that the train split never has."""
    held_out_pairs: int = Field(default=0, ge=0)
    """Number of ordered pairs of commands that programs of training and validation never have one directly after the other. They are
    drawn from `data.seed` among those that do not commute. Every state still meets every command."""
    test_pairs: Literal["with", "without"] | None = None
    """Test programs that have at least one held-out pair, or none, as in training; null: drawn as if none were held out."""

    @model_validator(mode="after")
    def _ordered(self) -> PermutationTask:
        low, high = self.length_range()
        if not 0 <= low <= high <= LONGEST:
            raise ValueError(
                f"length must be 0 to {LONGEST}, or [low, high] with 0 <= low <= high <= {LONGEST}; got {shown(self.length)}"
            )
        return self

    @model_validator(mode="after")
    def _pairs_exist(self) -> PermutationTask:
        most = len(move_table(self.n, self.moves)) // 2
        fewest = min(self.length_range()[0], (self.repertoire_range() or (2,))[0])
        if self.held_out_pairs > most:
            raise ValueError(
                f"held_out_pairs must be 0 to {most}, half of the commands of n {self.n} and moves {self.moves}; got "
                f"{self.held_out_pairs}"
            )
        if self.test_pairs == "with" and fewest < 2:
            raise ValueError(f"test_pairs with needs length and repertoire of at least 2; got {fewest}")
        return self

    @model_validator(mode="after")
    def _repertoire_exists(self) -> PermutationTask:
        bounds, every = self.repertoire_range(), len(move_table(self.n, self.moves))
        if bounds is not None and not 1 <= bounds[0] <= bounds[1] <= every:
            raise ValueError(
                f"repertoire must be 1 to {every}, the commands of n {self.n} and moves {self.moves}, or [low, high] with 1 <= low <= "
                f"high <= {every}; got {shown(self.repertoire)}"
            )
        return self

    def length_range(self) -> tuple[int, int]:
        return low_high(self.length)

    def repertoire_range(self) -> tuple[int, int] | None:
        return None if self.repertoire is None else low_high(self.repertoire)

    def describe(self) -> str:
        return "Permutation programs: a few variables whose values are permuted command by command"

    def draw(self, split: str, indices: Sequence[int], seed: int, session: bool) -> list[Drawn]:
        keys, batch = self._batch(split, np.asarray(indices, dtype=np.int64), seed)
        return [self._drawn(batch, row, int(key), session) for row, key in enumerate(keys)]

    def has_strings(self, session: bool) -> bool:
        return not session and self.answer == "string"

    def returns_nothing(self) -> bool:
        return self.answer != "string"

    def has_loops(self) -> bool:
        return False

    def without_effect(self, session: bool) -> dict[str, str]:
        idle = {} if self.held_out_pairs else {"test_pairs": "without held_out_pairs"}
        return idle | ({"answer": "in a session, which ends with its values"} if session else {})

    def held_out(self) -> dict[tuple[str, Any], str]:
        low, high = self.length_range()
        reason = f"programs have {low} commands" if low == high else f"programs have {low} to {high} commands"
        lengths: dict[tuple[str, Any], str]
        lengths = {("held_out_lengths", n): "" if low <= n <= high else reason for n in self.held_out_lengths}
        if self.held_out_pairs:
            most = min(high, (self.repertoire_range() or (2,))[-1])
            lengths["held_out_pairs", self.held_out_pairs] = "" if most > 1 else "programs have one command"
        return lengths | ({("split_by", self.split_by): ""} if self.split_by != "program" else {})

    def symbols(self) -> list[str]:
        return vocabulary(self.n, self.moves)

    def token_arrays(
        self, split: str, indices: Sequence[int], seed: int, reveal: RevealConfig, context: bool
    ) -> TokenArrays | None:
        if reveal.locals in DIFFS:  # the layout of arrays must not depend on the values
            return None
        keys, batch = self._batch(split, np.asarray(indices, dtype=np.int64), seed)
        return batch_arrays(batch, keys, reveal, context)

    def guesses(self, trace: Trace, answer: str) -> Guesses:
        """Rate a guess among reachable final states, and the initial state.

        With a repertoire, the chance is None.
        """
        full_states = [
            list(f.locals.values()) for f in trace.frames if f.locals is not None and len(f.locals) == self.n
        ]
        if not full_states:
            return Guesses(None, None)
        start, final = ([value.text for value in state] for state in (full_states[0], full_states[-1]))
        by_chance = chance(start, final, self.moves, len(full_states) - 1) if self.repertoire is None else None
        return Guesses(by_chance, start == final)

    def _drawn(self, batch: PermutationBatch, row: int, key: int, as_session: bool) -> Drawn:
        traced = session(batch, row)
        final = traced.frames[-1].locals or {}
        in_state = not as_session and self.returns_nothing()
        return Drawn(
            traced.program if as_session else function(batch, row, self.answer),
            identity=traced.program.code,
            key=key,
            slices={
                "n": self.n,
                "moves": self.moves,
                "length": int(batch.lengths[row]),
                **({} if batch.pairs is None else {"held_out_pairs": int(batch.pairs[row])}),
            },
            trace=traced if as_session else None,
            answer=None if in_state else ",".join(f"{name}={value.text}" for name, value in final.items()),
            answer_in_state=in_state,
            returns=True,
            cluster="".join(frame.source for frame in traced.frames) if self.split_by == "commands" else None,
        )

    def _batch(self, split: str, indices: npt.NDArray[np.int64], seed: int) -> tuple[rng.U64, PermutationBatch]:
        count, pending = len(indices), np.arange(len(indices))
        keys, lengths = np.zeros(count, np.uint64), np.zeros(count, np.int64)
        values, moves = np.zeros((count, self.n), np.int64), np.zeros((count, self.length_range()[1]), np.int64)
        successors = held_out_successors(self.n, self.moves, self.held_out_pairs, seed) if self.held_out_pairs else None
        pairs = "without" if split in SEEN else self.test_pairs
        for attempt in range(MAX_ATTEMPTS):
            if not len(pending):
                batch = PermutationBatch(self.moves, lengths, values, moves)
                return keys, batch if successors is None else batch._replace(pairs=count_pairs(batch, successors))
            new_keys = rng.keys(seed, stream_of(split), indices[pending], attempt)
            drawn = draw_batch(
                self.moves,
                self.n,
                self.length_range(),
                self.distinct_values,
                new_keys,
                self.repertoire_range(),
                successors if pairs else None,
                pairs == "with",
            )
            allowed = self._allowed(split, drawn)
            rows = pending[allowed]
            keys[rows], lengths[rows], values[rows] = new_keys[allowed], drawn.lengths[allowed], drawn.values[allowed]
            moves[rows, : drawn.moves.shape[1]] = drawn.moves[allowed]
            pending = pending[~allowed]
        raise too_few_programs(self, split)

    def _allowed(self, split: str, batch: PermutationBatch) -> npt.NDArray[np.bool_]:
        allowed = in_split(content_hash(batch, values=self.split_by == "program"), split)
        if split == "train" and self.held_out_lengths:
            allowed &= ~np.isin(batch.lengths, self.held_out_lengths)
        return allowed
