"""Reads and writes sample logs of lm-evaluation-harness, with additional fields from which a run can be restored."""
