"""What holds for all tests: hypothesis finds mistakes, not busy machines, and Ctrl-C is what it is on a terminal."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("wmmadiag", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wmmadiag")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it in what it starts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
