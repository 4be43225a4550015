from .record import InvalidRecord, Record, find, judge_record, read, write
from .recorder import record_example
from .runner import block_keys, run, split

__all__ = [
    "InvalidRecord",
    "Record",
    "block_keys",
    "find",
    "judge_record",
    "read",
    "record_example",
    "run",
    "split",
    "write",
]
