"""What is promised of traces, tried on programs that people wrote: the examples of packages."""
