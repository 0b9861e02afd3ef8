"""Faces of a result: what a person reads, apart from where it is shown."""
