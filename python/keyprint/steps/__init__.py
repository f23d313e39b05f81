"""Cached steps: callables whose results are kept."""
