"""Benchmarks that run without this package: frozen examples, tasks for two harnesses, a scorer."""
