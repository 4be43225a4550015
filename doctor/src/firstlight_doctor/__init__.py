"""Why is there no GPU? `facts` collects, `rules` judge, `report` says; `cases` holds broken machines as data."""

from firstlight_doctor.cases import Case, case, cases
from firstlight_doctor.facts import collect
from firstlight_doctor.report import Report, examine
from firstlight_doctor.rules import Finding, diagnose
from firstlight_doctor.schema import Facts

__version__ = "0.1.0"
__all__ = ["Case", "Facts", "Finding", "Report", "case", "cases", "collect", "diagnose", "examine"]
