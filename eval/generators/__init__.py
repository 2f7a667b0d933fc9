"""Generators of traces. `loop.py` defines the results that all others must reproduce."""
