"""The store over Django, on each database."""
