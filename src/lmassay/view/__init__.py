"""The live view: a results folder in the browser, also while runs are in progress, on this machine only.

``server`` listens, ``guard`` decides which requests are answered, ``app`` has the addresses of all pages. ``folder``
reads the results folder; the other modules compute what a page shows, and ``templates/`` has the pages.
"""
