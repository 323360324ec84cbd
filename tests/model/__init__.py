"""Whole histories on every driver at once: each must be what the memory driver makes of it."""
