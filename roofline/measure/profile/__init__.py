"""Profiles of real runs: kernels of a trace as operators, beside their bounds and estimates."""
