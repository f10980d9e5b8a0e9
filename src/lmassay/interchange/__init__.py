"""Exchange with other programs: exports, data frames, lm-evaluation-harness, Every Eval Ever, Datasette."""

# How the evaluator may be related to the developer of the model, in the words of Every Eval Ever's schema.
RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
