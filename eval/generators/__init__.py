"""Generators of traces. `loop.py` defines the results that all others must reproduce."""

from remedy.eval.generators.base import DecodingOptions, Generator, ModelOutput, Request, Writer, make_requests
from remedy.eval.generators.loop import LoopGenerator
from remedy.eval.generators.request_log import Journal, JournaledWriter
from remedy.eval.generators.served import ServedGenerator
from remedy.eval.generators.speculative import LocalGenerator

__all__ = ["Generator", "Journal", "JournaledWriter", "LocalGenerator", "LoopGenerator", "Request", "ServedGenerator"]
__all__ += ["DecodingOptions", "ModelOutput", "Writer", "make_requests"]
