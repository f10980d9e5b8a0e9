"""Random damage to everything that lmassay reads: configurations, data, logs, stores, model folders, command lines.

``make fuzz`` runs it for some minutes, ``tests/fuzzing/test_fuzzing.py`` for some seconds. See ``harness.py``.
"""
