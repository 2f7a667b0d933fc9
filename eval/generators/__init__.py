"""What writes traces, chosen by name. `loop.py` is the plain loop that all are held to."""

from remedy.eval.generators.base import GENERATORS, Generator, Request, Writing, Written, requests
from remedy.eval.generators.loop import LoopGenerator
from remedy.eval.generators.request_log import Journal, Kept
from remedy.eval.generators.served import ServedGenerator
from remedy.eval.generators.speculative import LocalGenerator

__all__ = [
    "GENERATORS",
    "Generator",
    "Journal",
    "Kept",
    "LocalGenerator",
    "LoopGenerator",
    "Request",
    "ServedGenerator",
    "Writing",
    "Written",
    "requests",
]
