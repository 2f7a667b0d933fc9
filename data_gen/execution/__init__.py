"""Execution: what happened when a program ran."""
