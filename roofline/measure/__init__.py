"""Measurements: kernels timed through torch, their records, fits to them, and predictions compared with them."""
