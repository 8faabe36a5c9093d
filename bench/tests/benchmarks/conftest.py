"""The trained model of the product's own adapters."""

from tests.integrations.conftest import trained

__all__ = ["trained"]
