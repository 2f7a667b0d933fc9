"""Decoding of traces: cursor, forcings and constraints."""
