"""Only who may ask is answered, and every answer has the headers that keep pages from being abused."""

import pytest
from fastapi.testclient import TestClient

from tests.ui.web.conftest import ADDRESS
from turnover.errors import RunError
from turnover.ui.web.app import make_app

TOKEN = "a-token-that-is-long-enough"


@pytest.fixture(scope="module")
def signed_out(text_run):
    with TestClient(make_app(text_run, token=TOKEN, hosts=None), base_url=ADDRESS) as client:
        yield client


@pytest.fixture
def guarded(signed_out):
    signed_out.cookies.clear()
    return signed_out


@pytest.mark.parametrize("path", ["/", "/rows", "/marks", "/api", "/api/run", "/nothing", "/static/page.js", "/answer"])
def test_every_answer_forbids_scripts_and_frames_from_elsewhere(texts, path):
    headers = texts.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert "server" not in headers


def test_the_report_may_run_its_own_scripts_but_in_an_origin_of_its_own(texts, text_run):
    text_run.folder.report.write_text("<!doctype html><title>report</title>")
    try:
        assert 'href="/report"' in texts.get("/").text
        policy = texts.get("/report").headers["content-security-policy"]
    finally:
        text_run.folder.report.unlink()
    assert policy.startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy
    assert texts.get("/report").status_code == 404
    assert 'href="/report"' not in texts.get("/").text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""])
def test_another_host_name_is_not_answered_so_that_dns_cannot_be_rebound(texts, host):
    answer = texts.get("/api/run", headers={"Host": host})
    assert answer.status_code == 421
    assert "labels" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8000", "localhost:1234", "[::1]:8000", "LOCALHOST"])
def test_names_of_this_machine_are_answered(texts, host):
    assert texts.get("/api/run", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/api/run", "/openapi.json", "/static/page.js", "/marks", "/corrected"])
@pytest.mark.parametrize("sent", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}])
def test_without_the_token_nothing_is_told(guarded, path, sent):
    answer = guarded.get(path, headers=sent)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "reviews" not in answer.text
    assert "turnover serve" in answer.text


def test_the_token_in_the_address_becomes_a_cookie_that_scripts_and_other_sites_do_not_get(guarded):
    client = guarded
    first = client.get(f"/rows?label=good&token={TOKEN}")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert 'url=/rows?label=good"' in first.text
    assert client.get("/api/run").status_code == 200  # by the cookie
    client.cookies.clear()
    assert client.get("/api/run").status_code == 401
    assert client.get("/api/run", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_a_wrong_token_in_the_address_sets_no_cookie(guarded):
    answer = guarded.get("/?token=wrong")
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_signing_in_leads_to_no_other_site(guarded):
    page = guarded.get(f"http://127.0.0.1:8000//evil.example/?token={TOKEN}").text
    assert "url=/evil.example" in page
    page = guarded.get(f'/?x="><script>&token={TOKEN}').text
    assert "<script>" not in page


def test_any_name_without_a_token_is_refused(text_run):
    with pytest.raises(RunError, match="needs a token"):
        make_app(text_run, hosts=None)


OWN = ADDRESS


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Origin": OWN},
        {"Sec-Fetch-Site": "same-site"},
        {},
    ],
)
def test_forms_of_other_pages_change_nothing(texts, headers):
    answer = texts.post("/marks", data={"row": 1, "label": "good"}, headers=headers)
    assert answer.status_code == 403
    assert texts.get("/api/marks").json() == {"marks": []}


@pytest.mark.parametrize("headers", [{"Origin": OWN}, {"Sec-Fetch-Site": "same-origin"}])
def test_forms_of_our_own_page_do(texts, headers):
    answer = texts.post("/marks", data={"row": 1, "label": "good"}, headers=headers, follow_redirects=False)
    assert answer.status_code == 303
    assert len(texts.get("/api/marks").json()["marks"]) == 1


def test_programs_may_send_json_without_an_origin_but_not_with_another(texts):
    assert texts.put("/api/marks/1", json={"label": "good"}).status_code == 200
    elsewhere = {"Origin": "http://evil.example"}
    assert texts.put("/api/marks/2", json={"label": "good"}, headers=elsewhere).status_code == 403
    assert texts.delete("/api/marks/1", headers=elsewhere).status_code == 403
    assert texts.post("/api/explain", json={"row": 1}, headers=elsewhere).status_code == 403


@pytest.mark.parametrize(
    "back", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", ""]
)
def test_after_marking_nobody_is_sent_elsewhere(texts, back):
    answer = texts.post(
        "/marks", data={"row": 1, "label": "good", "back": back}, headers={"Origin": OWN}, follow_redirects=False
    )
    assert answer.headers["location"] in ("/", "/marks")
