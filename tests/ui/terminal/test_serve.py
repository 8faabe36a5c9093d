"""`turnover serve`: a real server that answers and ends with Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")


@pytest.mark.slow
def test_it_tells_its_address_answers_there_and_ends_on_ctrl_c(text_run):
    command = [sys.executable, "-c", "from turnover.ui.terminal import main; main()"]
    server = subprocess.Popen(
        [*command, "serve", str(text_run), "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert server.stdout is not None
        lines = [server.stdout.readline() for _ in range(4)]
        address = json.loads("".join(lines))["address"]
        with urllib.request.urlopen(address, timeout=60) as page:
            assert page.status == 200
        server.send_signal(signal.SIGINT)
        _, heard = server.communicate(timeout=60)
    finally:
        server.kill()
    assert server.returncode == 0, heard
    assert "Traceback" not in heard
