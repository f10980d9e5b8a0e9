"""Exchange with other programs: exports, data frames, lm-evaluation-harness, Every Eval Ever, Datasette."""

# The possible relationships of the evaluator to the developer of the model, as named in Every Eval Ever's schema.
RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
