"""Why is there no GPU? `facts` collects, `rules` judge, `report` says; `cases` holds broken machines as data."""

from firstlight.doctor.cases import Case, case, cases
from firstlight.doctor.facts import collect
from firstlight.doctor.report import Report, examine
from firstlight.doctor.rules import Finding, diagnose
from firstlight.doctor.shapes import Facts

__all__ = ["Case", "Facts", "Finding", "Report", "case", "cases", "collect", "diagnose", "examine"]
