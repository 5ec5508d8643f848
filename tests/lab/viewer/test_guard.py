"""Who may ask, and what every response says."""

from __future__ import annotations

import pytest

from longplay.lab.viewer.guard import Access
from viewer_requests import HOST, Viewer, open_viewer


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1:8450", True),
        ("localhost:8450", True),
        ("[::1]:8450", True),
        ("LOCALHOST:8450", True),
        ("127.0.0.1", False),
        ("127.0.0.1:80", False),
        ("evil.example:8450", False),
        ("127.0.0.1.evil.example:8450", False),
        ("evil@127.0.0.1:8450", False),
        ("127.0.0.1:8450/", False),
        ("127.0.0.1:8450:8450", False),
        ("127.0.0.1:99999", False),
        ("[::1:8450", False),
        ("0.0.0.0:8450", False),
        ("", False),
    ],
)
def test_host_must_be_the_server(host, is_ours):
    assert Access(8450).admits_host(host) is is_ours


def test_with_a_token_any_address_is_the_server():
    access = Access(8450, token="t")
    assert access.admits_host("192.168.1.7:8450")
    assert access.admits_host("[fe80::1]:8450")
    assert not access.admits_host("evil.example:8450")


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({}, 200),
        ({"method": "HEAD"}, 200),
        ({"headers": {"origin": f"http://{HOST}"}}, 200),
        ({"headers": {"content-length": "0"}}, 200),
        ({"method": "POST"}, 405),
        ({"method": "DELETE"}, 405),
        ({"method": "OPTIONS"}, 405),
        ({"method": "get"}, 405),
        ({"headers": {"origin": "http://evil.example"}}, 403),
        ({"headers": {"origin": "null"}}, 403),
        ({"headers": {"origin": f"https://{HOST}"}}, 403),
        ({"headers": {"host": "evil.example:8450"}}, 421),
        ({"headers": []}, 421),
        ({"headers": [(b"host", HOST.encode())] * 2}, 421),
        ({"headers": {"content-length": "5"}, "body": b"hello"}, 413),
        ({"headers": {"transfer-encoding": "chunked"}}, 413),
        ({"headers": {"x-long": "x" * 40_000}}, 431),
    ],
)
def test_requests_that_pass(played: Viewer, options, status):
    reply = played.get("/", **options)
    assert reply.status == status
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; ")
    assert "unsafe-eval" not in policy
    assert "script-src" not in policy  # so scripts come from default-src alone
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["cross-origin-resource-policy"] == "same-origin"
    if status == 405:
        assert reply.headers["allow"] == "GET, HEAD"


def test_address_has_a_limit(played: Viewer):
    assert played.get("/?q=" + "x" * 20_000).status == 414


def test_token_is_required_and_kept_in_a_cookie(finished_run):
    viewer = open_viewer(finished_run, token="right")
    assert viewer.get("/").status == 401
    assert viewer.get("/?token=wrong").status == 401
    assert viewer.get("/", headers={"cookie": "longplay_token=wrong"}).status == 401
    signed_in = viewer.get("/runs/x?token=right")
    assert (signed_in.status, signed_in.headers["location"]) == (303, "/runs/x")
    cookie = signed_in.headers["set-cookie"]
    assert cookie == "longplay_token=right; HttpOnly; SameSite=Strict; Path=/"
    assert viewer.get("/", headers={"cookie": cookie.split(";")[0]}).status == 200
    # A token alone does not make another site's request ours.
    cookies = {"cookie": "longplay_token=right", "origin": "http://evil.example"}
    assert viewer.get("/", headers=cookies).status == 403


def test_signing_in_leads_to_no_other_site(finished_run):
    viewer = open_viewer(finished_run, token="right")
    for address in ("//evil.example/", "/%2F/evil.example", "/\\evil.example"):
        location = viewer.get(f"{address}?token=right").headers["location"]
        assert location.startswith("/")
        assert location[1] not in "/\\"
