"""Real threads on real databases: who wins is told so, who loses is told why, nothing is torn."""
