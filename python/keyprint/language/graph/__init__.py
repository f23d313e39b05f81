"""Kernels that are graphs: their tasks, checkpoints, status."""
