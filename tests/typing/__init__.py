"""What type checkers must say of the public interface: read by mypy and pyright, never run."""
