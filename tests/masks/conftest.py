"""Settings for the tests of masks."""

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """On small pieces a second thread waits more than it works, most of all on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
