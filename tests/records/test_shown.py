"""A change to how outputs are keyed may hide none of those that machines have printed."""

from samples import RECORDS, ROOT

from firstlight.records.record import read
from firstlight.records.runner import block_keys

# Outputs and figures. Until 28 November 2026 there were 8 more of each: printed sentences that were found to be false
# and now say something else, which those machines have not printed. A record taken anew may raise the numbers.
SHOWN = {"cpu": [466, 26], "nvidia": [471, 26]}


def test_as_many_outputs_are_shown_as_before():
    shown = {maker: [0, 0] for maker in SHOWN}
    for path in RECORDS:
        record = read(path)
        script = ROOT / "examples" / f"{record.example}.py"
        keys = set(block_keys(script.read_text("utf-8"))) if script.is_file() else set()
        counts = shown[record.machine.partition("-")[0]]
        counts[0] += sum(name.rpartition(":")[2] in keys for name in record.outputs)
        counts[1] += sum(name in keys for name in record.figures)
    assert {maker: [*map(min, shown[maker], SHOWN[maker])] for maker in SHOWN} == SHOWN
