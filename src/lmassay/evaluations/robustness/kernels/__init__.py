"""Exact batch kernels for sentence chrF and BLEU; :mod:`engine` chooses between numpy and numba."""
