"""Tests of the conformance kit: what keeps its laws passes, and what breaks one is found."""
