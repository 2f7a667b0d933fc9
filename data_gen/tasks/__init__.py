"""Tasks: which programs there are."""
