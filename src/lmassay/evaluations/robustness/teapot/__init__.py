"""Compatibility with TEAPOT (Michel et al. 2019): its command line, and its module for scorers written for it."""
