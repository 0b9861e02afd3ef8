"""What arrives at a server: lengths of prompts and outputs, traces, classes of requests, and load over a day."""

from roofline.serving.traffic.build import load_traffic, single
from roofline.serving.traffic.classes import RequestClass, Traffic
from roofline.serving.traffic.engine_run import EngineMeta, EngineRun, read_run
from roofline.serving.traffic.lengths import Lengths, parse_lengths
from roofline.serving.traffic.pairs import Pairs
from roofline.serving.traffic.profile import Profile, parse_profile
from roofline.serving.traffic.trace import Trace, read_trace, write_trace

__all__ = [
    "EngineMeta",
    "EngineRun",
    "Lengths",
    "Pairs",
    "Profile",
    "RequestClass",
    "Trace",
    "Traffic",
    "load_traffic",
    "parse_lengths",
    "parse_profile",
    "read_run",
    "read_trace",
    "single",
    "write_trace",
]
