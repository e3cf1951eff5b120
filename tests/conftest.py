"""What holds for all tests: hypothesis finds mistakes, not busy machines."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("wmmadiag", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wmmadiag")
