"""Requests over time: traffic, queueing, preemption, simulation, plans."""
