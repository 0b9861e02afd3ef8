"""What arrives at a server: lengths of prompts and answers, traces, classes of requests, and how load moves over a day."""

from roofline.serving.traffic.classes import Class, Traffic
from roofline.serving.traffic.engine_meta import EngineMeta
from roofline.serving.traffic.engine_run import EngineRun, read_run
from roofline.serving.traffic.file import load_traffic
from roofline.serving.traffic.lengths import Lengths, parse_lengths
from roofline.serving.traffic.pairs import Pairs
from roofline.serving.traffic.profile import Profile, parse_profile
from roofline.serving.traffic.single import single
from roofline.serving.traffic.trace import Trace, read_trace
from roofline.serving.traffic.write import write_trace

__all__ = [
    "Class",
    "EngineMeta",
    "EngineRun",
    "Lengths",
    "Pairs",
    "Profile",
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
