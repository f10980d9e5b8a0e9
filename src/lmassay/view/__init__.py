"""``lmassay view``: web pages that show a results folder, also while runs are in progress, on this machine only.

``server`` listens for requests, ``guard`` decides which of them are answered, and ``app`` maps the addresses to pages.
``folder`` reads the results folder, the other modules compute what a page shows, and ``templates/`` has the HTML.
"""
