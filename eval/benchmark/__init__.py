"""Benchmarks that others run without this package: frozen examples, tasks for two harnesses, and a scorer that needs Python alone."""
