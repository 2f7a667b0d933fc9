"""Execution of programs."""
