"""Costs: what traces cost in tokens, measured without a model."""

REQUEST, TOKENS, PATTERNS = "measure.json", "tokens.parquet", "patterns.parquet"
"""The files of a measurement, which reports read."""
