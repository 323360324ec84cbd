"""The management commands, and what they share: options, output, signals, exit statuses."""
