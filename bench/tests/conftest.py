"""The fixtures of all tests, for those of the bench too: fixed seeds, a cache of their own, the real data sets."""

from tests.conftest import data_file, data_folder, fixed_seeds, own_cache

__all__ = ["data_file", "data_folder", "fixed_seeds", "own_cache"]
