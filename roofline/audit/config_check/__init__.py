"""Deployments as they stand in repositories, judged by the objectives of a traffic."""

from __future__ import annotations

from roofline.audit.config_check.judge import check
from roofline.audit.config_check.result import Check, Finding

__all__ = ["Check", "Finding", "check"]
