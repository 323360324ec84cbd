"""Tests of the framework-free part; none needs a database or Django."""
