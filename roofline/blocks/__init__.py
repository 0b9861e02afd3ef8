"""Blocks: a section of a model's file and the operators that it becomes. One file a kind, found by walking."""
