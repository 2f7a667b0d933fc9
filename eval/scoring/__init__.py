"""Scores of examples, by a scorer for frames of text or for one-token formats."""

from remedy.eval.scoring.batch import score_batch, write_batch

__all__ = ["score_batch", "write_batch"]
