"""Traces: how what happened is written down, and read back."""
