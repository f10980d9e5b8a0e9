"""Published data sets that can be used by name: their descriptions, download, and the copies on this machine."""
