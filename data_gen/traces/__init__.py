"""Traces as text: formats, states, encodings, comparison of values."""
