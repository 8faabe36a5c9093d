"""A real browser for tests of pages: headless Chromium that cannot reach beyond this machine and keeps a log.

TURNOVER_CHROMIUM and TURNOVER_CHROMEDRIVER say where the two programs are, if not in /usr/bin.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

CHROMIUM = os.environ.get("TURNOVER_CHROMIUM") or "/usr/bin/chromium"
CHROMEDRIVER = os.environ.get("TURNOVER_CHROMEDRIVER") or "/usr/bin/chromedriver"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
    # Whatever a page asks for elsewhere fails here, and shows in the log of the console.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
]


@dataclass
class Browser:
    """A driver with everything that was logged since it started.

    Attributes:
        driver: of selenium; for all that is not here.
        downloads: where files go that are downloaded.
        console: what the page and the browser said: level and message.
        requests: addresses that were asked for, except those of the browser's own pages.
    """

    driver: Any
    downloads: Path
    console: list[tuple[str, str]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, address: str | Path) -> None:
        self.driver.get(address.resolve().as_uri() if isinstance(address, Path) else address)

    def all(self, css: str) -> list[Any]:
        return self.driver.find_elements("css selector", css)

    def one(self, css: str, seconds: float = 20) -> Any:
        """Return the first element that a selector finds, waiting for it."""
        return self.until(lambda: (self.all(css) or [None])[0], f"an element {css}", seconds)

    def visible(self, css: str) -> list[Any]:
        return [element for element in self.all(css) if element.is_displayed()]

    def until(self, holds: Any, what: str, seconds: float = 20) -> Any:
        """Wait for a function to return something true, and return that; elements may be replaced while it looks."""
        from selenium.common.exceptions import StaleElementReferenceException
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(self.driver, seconds, 0.05, [StaleElementReferenceException])
        return waiting.until(lambda _: holds(), f"waited {seconds} s for {what}")

    def run(self, script: str, *given: Any) -> Any:
        """Return what a script returns in the page; it may do so by a promise."""
        return self.driver.execute_script(script, *given)

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def prefer(self, scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def without_scripts(self) -> None:
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})

    def errors(self) -> list[str]:
        self.take_logs()
        return [message for level, message in self.console if level in ("SEVERE", "WARNING")]

    def outside(self) -> list[str]:
        """Return the requests so far that would leave this machine."""
        self.take_logs()
        return [address for address in self.requests if _host(address) not in ("", "127.0.0.1", "localhost")]

    def take_logs(self) -> None:
        self.console += [(entry["level"], entry["message"]) for entry in self.driver.get_log("browser")]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                params = message["params"]
                address = params.get("request", params)["url"]
                if not address.startswith("chrome:"):
                    self.requests.append(address)


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is missing: make test-browser")
    for program in (CHROMIUM, CHROMEDRIVER):
        if not Path(program).is_file():
            pytest.skip(f"{program} is missing: make test-browser installs it")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=CHROMEDRIVER))
    try:
        driver.set_page_load_timeout(60)
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Chromium for all tests of a process: its start takes seconds."""
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def browser(driver: Any, tmp_path: Path) -> Iterator[Browser]:
    """The browser as a new user has it: no cookies, storage, log or open page; downloads go to `browser.downloads`."""
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    new = Browser(driver, downloads)
    new.take_logs()
    new.console.clear()
    new.requests.clear()
    yield new
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    if driver.current_url.startswith("http"):
        driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": driver.current_url, "storageTypes": "all"})
    driver.get("about:blank")


def _host(address: str) -> str:
    parts = urlsplit(address)
    return (parts.hostname or "") if parts.scheme in ("http", "https", "ws", "wss", "ftp") else ""
