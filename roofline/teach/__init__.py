"""Worksheets and lessons: Markdown, notebooks and pages whose numbers the toolkit computes."""
