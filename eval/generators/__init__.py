"""What writes traces, chosen by name. `loop.py` is the plain loop that all are held to."""

from remedy.eval.generators.base import GENERATORS, Generator, Writing, Written
from remedy.eval.generators.local import LocalGenerator
from remedy.eval.generators.loop import LoopGenerator
from remedy.eval.generators.request_log import Journal, Kept
from remedy.eval.generators.served import ServedGenerator

__all__ = [
    "GENERATORS",
    "Generator",
    "Journal",
    "Kept",
    "LocalGenerator",
    "LoopGenerator",
    "ServedGenerator",
    "Writing",
    "Written",
]
