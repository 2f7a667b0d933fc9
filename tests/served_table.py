"""`python -m tests.served_table` prints a table: evaluations of the same programs in this process and over HTTP, by forcing."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence

import torch

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Role
from remedy.eval.config import EvalConfig
from remedy.eval.decoding.cursor import runs_of
from remedy.eval.decoding.forcings import FORCINGS
from remedy.eval.evaluate import Ran, run_condition
from remedy.eval.generators import Generator, LocalGenerator, ServedGenerator
from remedy.eval.generators.backend import Backend
from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.encoding import encoded_examples
from remedy.models.protocol import CausalLM
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends import CharacterSettings
from remedy.settings import build
from tests.contract_server import ContractServer
from tests.mock_models import Known, Mock, mistaken

DATA = build(
    DataConfig,
    {
        "task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": 8, "answer": "none"},
        "format": "cwm",
    },
    "",
)
PROGRAMS = 8
HEAD = """| model | forcing | runs to write a trace | requests a trace: scores + runs | records | s, in this process | s, served |
|---|---|---|---|---|---|---|"""


def models(truths: Sequence[Encoded], tokenizer: TraceTokenizer) -> Iterator[tuple[str, CausalLM]]:
    """Models that look the truth up and are wrong in some role, and one of random weights."""
    kinds = {
        "right everywhere": (frozenset[Role](), False),
        "wrong in one action": (frozenset({Role.ACTION}), True),
        "wrong in one state": (frozenset({Role.STATE}), True),
        "wrong in every state": (frozenset({Role.STATE}), False),
    }
    for name, (wrong, once) in kinds.items():
        known = [
            Known(one.ids[: one.roles.count(int(Role.CONTEXT))], mistaken(one, wrong, once, tokenizer))
            for one in truths
        ]
        yield name, Mock(known, tokenizer.vocab_size)  # type: ignore[misc]
    torch.manual_seed(0)
    settings = DecoderSettings(mixers=("gru", "attention"), hidden_size=64)
    yield "random weights", DecoderForCausalLM(DecoderConfig.from_settings(settings, tokenizer.vocab_size)).eval()


def rows() -> Iterator[str]:
    tokenizer = build_tokenizer(CharacterSettings(), DATA)
    truths = [truth for _, truth in encoded_examples(DATA, tokenizer, "test", range(PROGRAMS))]
    for name, model in models(truths, tokenizer):
        local = LocalGenerator(ModelReader(model), tokenizer, PROGRAMS)
        with ContractServer(model, tokenizer).running() as url:
            served = ServedGenerator(Backend(url=url, model="tiny"), tokenizer, batch_size=PROGRAMS)
            for forcing, fed in FORCINGS.items():
                served.asked.clear()
                one, here = _timed(local, tokenizer, forcing)
                other, there = _timed(served, tokenizer, forcing)
                runs = sum(not is_fed for truth in truths for _, _, is_fed in runs_of(truth, fed)) / PROGRAMS
                said = f"{runs:g}" if runs else "-"
                requests = " + ".join(f"{served.asked[what] / PROGRAMS:g}" for what in ("score", "write"))
                yield f"| {name} | {forcing} | {said} | {requests} | {_alike(one, other)} | {here:.1f} | {there:.1f} |"
                name = ""


def _timed(generator: Generator, tokenizer: TraceTokenizer, forcing: str) -> tuple[Ran, float]:
    """An evaluation, and its seconds."""
    diagnostic = {"kind": "permutation", "lengths": [8], "forcing": [forcing], "examples": PROGRAMS}
    config = build(EvalConfig, {"diagnostics": [diagnostic], "max_new_tokens": 1200, "batch_size": PROGRAMS}, "")
    (condition,) = config.diagnostics[0].conditions(DATA, "test")
    begin = time.monotonic()
    return run_condition(generator, tokenizer, condition, config), time.monotonic() - begin


def _alike(one: Ran, other: Ran) -> str:
    """Whether records are the same, and every token."""
    same = [
        (str(mine) == str(others)) and mine_kept["ids"] == others_kept["ids"]
        for mine, others, mine_kept, others_kept in zip(one.rows, other.rows, one.kept, other.kept)
    ]
    tied = all(kept["near_ties"] for kept, alike in zip(other.kept, same) if not alike)
    if all(same):
        return "the same"
    return f"{sum(same)} of {len(same)}" + (", others part at a near tie" if tied else " **no**")


if __name__ == "__main__":
    torch.set_num_threads(1)
    logging.getLogger("remedy").setLevel("ERROR")
    print(HEAD)
    for line in rows():
        print(line, flush=True)
