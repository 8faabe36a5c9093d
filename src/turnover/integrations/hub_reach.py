"""Can the Hugging Face hub be reached? Asked once, quickly: its own libraries try again for most of a minute."""

import socket
from urllib.parse import urlsplit
from urllib.request import getproxies

_SECONDS = 5.0


def hub_is_reachable() -> bool:
    """Tell whether downloads are worth a try: not with HF_HUB_OFFLINE set, nor without a network."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    address = urlsplit(constants.ENDPOINT)
    # A proxy resolves names itself, so that looking from here would tell nothing.
    if getproxies().keys() & {"https", "http", "all"}:
        return True
    try:
        port = address.port or (80 if address.scheme == "http" else 443)
        with socket.create_connection((address.hostname or "", port), timeout=_SECONDS):
            return True
    except OSError:
        return False
