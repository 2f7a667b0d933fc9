"""Scores of examples: one scorer for frames of text, one for one-token formats, chosen by the format."""

from remedy.eval.scoring.batch import score_batch, write_batch

__all__ = ["score_batch", "write_batch"]
