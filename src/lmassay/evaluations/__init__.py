"""The evaluations that ship with lmassay, one folder each.

Each is registered through the entry-point group ``lmassay.evaluations`` like one from any other package, and nothing
outside this folder knows any of them.
"""
