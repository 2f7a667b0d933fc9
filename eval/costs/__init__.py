"""Costs: what traces cost in tokens, measured without a model."""

REQUEST, TOKENS, CUTS = "measure.json", "tokens.parquet", "cuts.parquet"
"""The files of a measurement, which reports read."""
