"""Many cases of many kernels, on this machine or on many: planned, run, journalled, shrunk, explained."""
