"""Capacity: which hardware, how many replicas and which flags serve a traffic within its objectives, and at what cost."""
