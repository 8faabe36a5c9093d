"""A port is bound or the cure is told; beyond this machine a token is needed."""

import json
import socket
import sys
import urllib.error
import urllib.request

import pytest

from turnover.errors import MissingExtraError, RunError
from turnover.ui.web.serving import open_server


def _asked(address: str, path: str):
    return urllib.request.urlopen(f"{address.rstrip('/')}/{path}")


def test_a_real_server_answers_and_stops(text_run):
    with open_server(text_run, port=0) as server:
        assert server.address == f"http://127.0.0.1:{server.port}/"
        assert server.token is None
        assert json.load(_asked(server.address, "api/run"))["kind"] == "text"
        assert "uvicorn" not in str(_asked(server.address, "").headers)
    with pytest.raises(urllib.error.URLError):
        _asked(server.address, "")


def test_a_port_in_use_is_told_with_the_next_one(text_run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RunError, match=rf"port {port} is in use.*--port {port + 1}"):
            open_server(text_run, port=port)


def test_beyond_this_machine_a_token_is_made_and_needed(text_run):
    with open_server(text_run, host="0.0.0.0", port=0) as server:
        assert server.token is not None
        assert len(server.token) >= 32
        assert server.address.endswith(f":{server.port}/?token={server.token}")
        here = f"http://127.0.0.1:{server.port}"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            _asked(here, "api/run")
        assert _asked(here, f"api/run?token={server.token}").status == 200
    with open_server(text_run, host="0.0.0.0", port=0) as other:
        assert other.token != server.token


def test_a_token_may_be_given_for_this_machine_too(text_run):
    with (
        open_server(text_run, port=0, token="sixteen-letters-x") as server,
        pytest.raises(urllib.error.HTTPError, match="401"),
    ):
        _asked(server.address.partition("?")[0], "api/run")


def test_with_a_token_it_can_stand_behind_a_proxy_with_a_name_and_tls_of_its_own(text_run):
    forwarded = {"Host": "turnover.example.org", "X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.7"}
    with open_server(text_run, port=0, token="sixteen-letters-x") as server:
        here = f"http://127.0.0.1:{server.port}/"
        signed_in = urllib.request.urlopen(urllib.request.Request(f"{here}?token=sixteen-letters-x", headers=forwarded))
        cookie = signed_in.headers["set-cookie"]
        assert "Secure" in cookie
        mark = {**forwarded, "Cookie": cookie.partition(";")[0], "Origin": "https://turnover.example.org"}
        form = urllib.request.Request(f"{here}marks", b"row=1&action=unmark&back=/marks", headers=mark)
        assert urllib.request.urlopen(form).status == 200
        elsewhere = urllib.request.Request(f"{here}marks", b"row=1", headers={**mark, "Origin": "https://evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(elsewhere)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"token": "short"}, "at least 16 characters, got 5"),
        ({"port": 70_000}, "from 0 to 65535, got 70000"),
        ({"host": "no.such.host.invalid"}, "is unknown"),
        ({"host": "192.0.2.1", "port": 0}, "must be an address of this machine"),
    ],
)
def test_what_cannot_be_served_is_told_with_what_to_type(text_run, options, sentence):
    with pytest.raises(RunError, match=sentence):
        open_server(text_run, **options)


def test_a_missing_package_is_told_with_the_extra_to_install(text_run, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'turnover\[serve\]'"):
        open_server(text_run, port=0)


def test_the_port_is_free_again_when_a_run_cannot_be_served(text_run):
    marks = text_run.folder.path / "marks.json"
    marks.write_text("{")
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with pytest.raises(RunError, match=r"marks\.json"):
            open_server(text_run, port=port)
    finally:
        marks.unlink()
    with open_server(text_run, port=port) as server:
        assert server.port == port
