"""What comes from other tools and goes to them: logs of lm-eval, Every Eval Ever, data frames, Datasette."""
