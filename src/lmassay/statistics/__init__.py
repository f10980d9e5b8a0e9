"""Intervals, comparisons and gates."""

# The significance level of comparisons and gates, unless another one is given.
ALPHA = 0.05
