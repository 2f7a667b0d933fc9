"""Checks of what is promised of traces, on programs that people wrote: the examples of packages."""
