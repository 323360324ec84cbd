"""Management commands of the example."""
