"""Simulate a measured run with its own arrivals and lengths, and compare the latencies."""

from roofline.audit.replay.replay import replay
from roofline.audit.replay.result import Replay

__all__ = ["Replay", "replay"]
