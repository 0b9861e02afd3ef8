"""Measured records against predictions: how far off, and which were faster than should be possible."""
