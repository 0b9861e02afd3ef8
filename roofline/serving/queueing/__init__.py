"""Queueing of a server with continuous batching, in closed form: open loops (`steady`) and closed loops (`closed_loop`)."""
