"""How fast a card's kernel is: on a GPU against its other variants, the device's peak and torch; or on the emulator."""

from wmmadiag.bench.measure import BenchRow, bench_card

__all__ = ["BenchRow", "bench_card"]
