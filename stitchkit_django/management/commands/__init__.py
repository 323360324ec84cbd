"""One module a command: it parses and prints; the work is elsewhere."""
