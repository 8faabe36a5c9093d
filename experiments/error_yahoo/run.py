"""The measurement, as for all data sets."""

from experiments.errors.measure import measure as run

__all__ = ["run"]
