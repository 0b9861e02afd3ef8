"""Limits of the batch over contexts, set by memory, compute and service-level objectives, and what-if variants of them."""
