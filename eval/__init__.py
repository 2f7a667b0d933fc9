"""Evaluation: decoding, diagnostics, scoring, statistics and reports."""
