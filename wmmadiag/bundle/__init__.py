"""Replay bundles: one file from which anyone repeats a check, without the repository, a compiler or a GPU.

A bundle is a zip archive: `bundle.json` (`wmmadiag.bundle.model.Manifest`), `run.json` (the outcome to expect, as
`wmmadiag check --json` writes it), the card, the sources and their headers under `files/`, the compiled PTX under
`ptx/`. Inputs are drawn again from their seeds; their hashes are in the manifest. Nothing in it is ever executed but
the PTX, on the emulator.
"""
