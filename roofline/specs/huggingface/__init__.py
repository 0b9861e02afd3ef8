"""Hugging Face's config.json read into a `Model`: exactly, or not at all.

`read` finds the family of a config, and the family's file in `families` says what its keys mean. A key that is missing
is given the default of the reference implementation only where published checkpoints rely on it, and that is put on
record in the model. A key that the family does not read is refused when it may change counts.
"""
