"""The evaluations that ship with lmassay, one folder each.

Each is registered through the entry-point group ``lmassay.evaluations``, in the same way as an evaluation from another
package. No code outside this folder refers to any of them.
"""
