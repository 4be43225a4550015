"""The meter counts what tensors hold, to the byte, and a limit gives back what it refused."""

import pytest
import torch

from firstlight.memory import Meter


def test_the_meter_counts_storages_once_and_forgets_them() -> None:
    with Meter() as meter:
        a = torch.zeros(1001)
        b = a[3:5].view(2, 1)
        assert meter.live() == 4004
        c = a.double()
        assert meter.live() == 4004 + 8008
        del a, c
        assert meter.live() == 4004
        del b
    assert meter.live() == 0


def test_an_operation_over_the_limit_fails_and_what_it_made_is_gone() -> None:
    with Meter(limit=9_999) as meter:
        kept = torch.zeros(1001)
        with pytest.raises(torch.OutOfMemoryError, match="9,999"):
            kept.double()
        assert meter.live() == kept.nbytes
