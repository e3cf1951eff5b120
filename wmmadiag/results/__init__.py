"""What a run found, as data: checks, subjects and the diagnosis write it, `wmmadiag.report` shows it."""
