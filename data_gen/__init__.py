"""Programs, their traces, and the ways to write them down. Knows nothing of models; imports no torch."""
