"""The project's own tests; what third parties run against their drivers is in the package."""
