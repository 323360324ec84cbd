"""One program for each peer; it imports nothing of this project that its environment hasn't."""
