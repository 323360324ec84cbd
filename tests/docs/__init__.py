"""The documentation, read and run as its reader does; none of this needs Sphinx."""
