"""Published data sets by name: what exists, where it comes from, and the copies on this machine."""
