"""What the store costs beside the database itself: `python -m benchmarks` measures and prints."""
