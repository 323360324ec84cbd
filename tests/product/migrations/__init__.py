"""The tables of the test product."""
