"""Thin entry points; they call the other packages and hold no logic of their own."""
