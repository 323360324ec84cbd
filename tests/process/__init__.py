"""Real processes: many that write at once, and ones that are killed in the middle of something."""
