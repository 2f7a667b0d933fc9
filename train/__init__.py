"""Training on rows of examples, with a loss by role."""
