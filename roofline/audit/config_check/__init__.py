"""Checks of deployment files (Kubernetes, Docker Compose, flags of an engine) against the objectives of a traffic."""

from __future__ import annotations

from roofline.audit.config_check.findings import Finding
from roofline.audit.config_check.judge import Check, check

__all__ = ["Check", "Finding", "check"]
