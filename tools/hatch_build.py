"""What a package index shows: the README with absolute links, and the addresses of the project.

They are made of TURNOVER_REPOSITORY, the address of the repository, which `make release` asks for. Without it, as in a
clone, the README is taken as it is.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?://|#)([^)\s]+)\)")


def with_absolute_links(readme: str, repository: str, version: str) -> str:
    """Return Markdown in which links and images lead to the files of a released version."""

    def absolute(link: re.Match[str]) -> str:
        image, text, path = link.groups()
        return f"{image}[{text}]({repository}/{'raw' if image else 'blob'}/v{version}/{path})"

    return _LINK.sub(absolute, readme)


class CustomMetadataHook(MetadataHookInterface):
    """Fills in `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add them to the metadata of the project."""
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository = os.environ.get("TURNOVER_REPOSITORY", "").rstrip("/")
        metadata["urls"] = {}
        if repository:
            version = re.search(
                r'__version__ = "(.+)"', Path(self.root, "src/turnover/_version.py").read_text(encoding="utf-8")
            )
            assert version is not None, "src/turnover/_version.py says no version"
            readme = with_absolute_links(readme, repository, version[1])
            shown = {"Repository": "", "Documentation": "/tree/main/docs", "Issues": "/issues"}
            metadata["urls"] = {
                **{name: f"{repository}{path}" for name, path in shown.items()},
                "Changelog": f"{repository}/blob/main/CHANGELOG.md",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
