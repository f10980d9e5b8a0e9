"""Sample logs of lm-evaluation-harness: reading them, writing them, and what is added so that a run can be restored."""
