"""Exact batch kernels for sentence chrF and BLEU; :mod:`backend` chooses between numpy and numba."""
