"""Programs, their traces, and ways to write them, without torch."""
