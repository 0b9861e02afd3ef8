"""A measured run served again by the simulator: its arrivals and lengths, and latencies compared."""

from roofline.audit.replay.replay import replay
from roofline.audit.replay.result import Replay

__all__ = ["Replay", "replay"]
