"""Compatibility with refining-tse (Newman et al. 2021): configurations, users' classes, result folders and figures."""
