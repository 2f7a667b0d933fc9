"""Records of an evaluation: their schema, files, summaries and baselines."""
