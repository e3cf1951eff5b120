"""Diagnosis: from wrong numbers to the cause, on the user's line, and a fix that was tried.

`engine` runs the failing case, gathers `evidence` (checks, provenance, fitted fault models), asks every one of the
`hypotheses`, tries `edits` of the source where their claims point, and ranks what is left.
"""
