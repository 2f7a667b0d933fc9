"""Costs: what traces cost in tokens, measured without a model."""
