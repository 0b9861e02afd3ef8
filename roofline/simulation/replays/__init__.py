"""A measured run served again by the simulator: its arrivals and lengths, and latencies beside latencies."""

from roofline.simulation.replays.replay import replay
from roofline.simulation.replays.result import Replay

__all__ = ["Replay", "replay"]
