"""Tokens for people to look at: what a model reads and writes, coloured by role. Built once, shown in a terminal or on a page."""
