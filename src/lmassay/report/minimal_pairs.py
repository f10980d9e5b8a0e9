from lmassay.report.generic import section

__all__ = ["section"]
