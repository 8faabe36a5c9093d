"""The packages of the extra `store`, imported when a result has to become a table."""

from typing import Any

from turnover.errors import MissingExtraError


def load_pandas() -> Any:
    """Return the package pandas."""
    try:
        import pandas  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise MissingExtraError("tables need pandas: pip install 'turnover[store]'.") from error
    return pandas


def load_xarray() -> Any:
    """Return the package xarray."""
    try:
        import xarray
    except ImportError as error:
        raise MissingExtraError("labeled arrays need xarray: pip install 'turnover[store]'.") from error
    return xarray
