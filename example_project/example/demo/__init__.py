"""The demo: one conversation, walked through and checked; the site needs none of it."""
