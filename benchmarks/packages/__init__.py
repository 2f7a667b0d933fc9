"""Holds the tracer, the constraints, the formats, the encodings and the rewrites to programs that people wrote: packages' own examples."""
