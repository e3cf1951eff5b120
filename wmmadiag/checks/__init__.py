"""Checks on a run: races, uninitialised reads, bounds, barriers, WMMA rules, …"""

from __future__ import annotations

from wmmadiag.checks.finding import Finding, Level

__all__ = ["Finding", "Level"]
