"""Two processes on the CPU mask, train, save and score as one does on their joint batch; `make test-distributed`."""

import pytest

TOLERANCE = 1e-12  # of float64
SCORES = 1e-6  # they are float32


@pytest.mark.parametrize("group", ["models", "compiled", "trainers", "rejected"])
def test_every_cell_equals_one_process(results, group):
    failures = [
        f"{name}, process {rank}: {cell['error'] or cell['differences']}"
        for rank, part in enumerate(results)
        for name, cell in part[group].items()
        if cell["error"] or any(not _close(*item) for item in cell["differences"].items())
    ]
    assert not failures, "\n".join(failures)
    assert all(part[group].keys() == results[0][group].keys() for part in results)


def _close(column: str, difference: float) -> bool:
    return difference <= (SCORES if column == "scores" else TOLERANCE)
