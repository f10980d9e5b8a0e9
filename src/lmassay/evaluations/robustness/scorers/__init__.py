"""Scorers: how similar two texts are, from 0 to 1. :mod:`.base` has the interface, each other module a scorer."""
