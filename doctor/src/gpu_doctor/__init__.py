"""Why is there no GPU? `facts` collects, `rules` judge, `report` says; `cases` holds broken machines as data."""

from gpu_doctor.cases import Case, case, cases
from gpu_doctor.facts import collect
from gpu_doctor.report import Report, examine
from gpu_doctor.rules import Finding, diagnose
from gpu_doctor.schema import Facts

__version__ = "0.1.0"
__all__ = ["Case", "Facts", "Finding", "Report", "case", "cases", "collect", "diagnose", "examine"]
