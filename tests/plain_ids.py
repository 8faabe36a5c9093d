"""Names of parametrised tests that are the same in every process, as running them in several needs."""

import re
from typing import Any


def plain_repr(value: Any) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def plain_str(value: Any) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))
