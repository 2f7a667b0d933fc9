"""Generators of traces. `loop.py` defines the results that all others must reproduce."""

from remedy.eval.generators.base import Generator, Request, Writer, Writing, Written, requests
from remedy.eval.generators.loop import LoopGenerator
from remedy.eval.generators.request_log import Journal, Kept
from remedy.eval.generators.served import ServedGenerator
from remedy.eval.generators.speculative import LocalGenerator

__all__ = ["Generator", "Journal", "Kept", "LocalGenerator", "LoopGenerator", "Request", "ServedGenerator"]
__all__ += ["Writer", "Writing", "Written", "requests"]
