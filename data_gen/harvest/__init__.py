"""Harvest: programs made of packages' functions and of calls recorded from them."""
