from __future__ import annotations

import re

from remory_service.app import RemoryApp


def test_the_page_needs_nothing_from_elsewhere(app: RemoryApp) -> None:
    answer = app.test_client().get("/")
    assert answer.status_code == 200
    assert answer.mimetype == "text/html"
    assert not re.search(r"(src|href)=|@import|url\(", answer.text)
    assert set(re.findall(r"https?://[^\"' ]+", answer.text)) == {"http://www.w3.org/2000/svg"}


def test_the_page_runs_its_own_script_and_no_other(app: RemoryApp) -> None:
    first, second = app.test_client().get("/"), app.test_client().get("/")
    policy = first.headers["Content-Security-Policy"]
    (nonce,) = set(re.findall(r"'nonce-([^']+)'", policy))
    assert first.text.count(f'nonce="{nonce}"') == 2
    assert nonce not in second.text
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    # A text that reaches the page is never read as HTML.
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", first.text)
