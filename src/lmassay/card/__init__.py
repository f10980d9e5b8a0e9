"""The report card: all four questions asked of a model."""
