import pytest
import torch


@pytest.fixture(autouse=True)
def threads():
    """One, as images as small as these are done sooner so; a test may set others."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch.set_num_threads
    torch.set_num_threads(before)
