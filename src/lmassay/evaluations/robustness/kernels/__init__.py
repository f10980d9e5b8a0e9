"""Fast, exact implementations of sentence chrF and BLEU; :mod:`.backend` chooses between numpy and numba."""
