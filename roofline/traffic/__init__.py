"""What arrives at a server: lengths of prompts and answers, traces, classes of requests, and how load moves over a day."""

from roofline.traffic.classes import Class, Traffic
from roofline.traffic.file import load_traffic
from roofline.traffic.lengths import Lengths, parse_lengths
from roofline.traffic.pairs import Pairs
from roofline.traffic.profile import Profile, parse_profile
from roofline.traffic.single import single
from roofline.traffic.trace import Trace, read_trace

__all__ = [
    "Class",
    "Lengths",
    "Pairs",
    "Profile",
    "Trace",
    "Traffic",
    "load_traffic",
    "parse_lengths",
    "parse_profile",
    "read_trace",
    "single",
]
