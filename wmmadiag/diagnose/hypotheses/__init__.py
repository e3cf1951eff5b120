"""One module per hypothesis; see `wmmadiag.diagnose.registry`."""
