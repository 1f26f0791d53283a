"""Benchmarks of memory systems: gold, systems, metrics, statistics, judge and report; no command line and no paths."""
