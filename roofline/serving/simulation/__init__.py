"""A server of LLM requests, computed event by event at the granularity of engine steps."""
