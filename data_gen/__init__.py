"""Programs, their traces, and the ways to write them. Imports no torch."""
