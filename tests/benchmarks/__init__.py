"""The benchmarks: that they compare like with like, and that the commands run; no timing."""
