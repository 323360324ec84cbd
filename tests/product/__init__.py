"""A product whose own rows host conversations and messages, and the tests of it."""
