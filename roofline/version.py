"""Versions of the code and of the shipped data, which change apart from one another."""

__version__ = "0.1.0"
DATA_VERSION = "2026.11.20"
SCHEMA_VERSION = 1
