"""What stands between the store and a project's own agent code; no model and no task queue."""
