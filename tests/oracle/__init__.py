"""Oracles: random programs, judged by plain Python."""
