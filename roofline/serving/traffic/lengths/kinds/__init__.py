"""Kinds of distributions, a file each."""
