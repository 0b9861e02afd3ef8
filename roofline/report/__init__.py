"""Renderers of results: pages, figures, tables and sentences."""
