"""Speculative decoding: a cheap draft of several tokens, and one step of the model that verifies them all.

Leviathan, Kalman, Matias 2023, arXiv:2211.17192; Chen et al. 2023, arXiv:2302.01318.
"""
