"""Harvest: programs made of real functions of packages and of calls that were really made of them."""
