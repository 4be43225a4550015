from .record import InvalidRecord, Judged, Record, judge_record, read, record_files, write
from .recorder import record_example
from .runner import block_keys, run, split

__all__ = [
    "InvalidRecord",
    "Judged",
    "Record",
    "block_keys",
    "judge_record",
    "read",
    "record_example",
    "record_files",
    "run",
    "split",
    "write",
]
