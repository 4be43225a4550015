"""Why is there no GPU? `facts` collects, `rules` judge, `report` says; `cases` holds broken machines as data."""

from firstlight.doctor.facts import collect
from firstlight.doctor.report import Case, Report, case, cases, examine
from firstlight.doctor.rules import Finding, diagnose
from firstlight.doctor.shapes import Facts

__all__ = ["Case", "Facts", "Finding", "Report", "case", "cases", "collect", "diagnose", "examine"]
