"""Views of tokens, coloured by role, for a terminal or a page."""
