"""Costs of traces in tokens, measured without a model."""

REQUEST, TOKENS, PATTERNS = "measure.json", "tokens.parquet", "patterns.parquet"
"""Files of a measurement, which reports read."""
