"""Checks on a run: races, uninitialised reads, bounds, barriers, WMMA rules, …"""

from __future__ import annotations

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.registry import Check, all_checks, findings, native_names, select

__all__ = ["Check", "Finding", "Level", "all_checks", "findings", "native_names", "select"]
