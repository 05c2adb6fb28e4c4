from __future__ import annotations

import pytest

from remory.language.grounding import Grounds, clean, names, normalized, numbers

MESSAGES = [
    "The limit is 1427 and 12,500 rows were read by 2026-01-15; about 42.5% at 14:30.",
    "v2 runs for 90s on db01.eu.internal:5432. On Friday three teams met; 1 200 files were left.",
    "Order Desk uses PostgreSQL 16, see https://wiki.example.com/x?y=1 and /etc/gateway/limits.yaml.",
]


@pytest.fixture(scope="module")
def grounds() -> Grounds:
    return Grounds(MESSAGES)


@pytest.mark.parametrize(
    "phrase",
    [
        "1427",
        "12,500",
        "12500",
        "12 500",
        "12\u202f500",
        "12'500",
        "1 200",
        "42.5",
        "14:30",
        "5432",
        "friday",
        "FRIDAY",
        "order desk",
        "Order\u00a0Desk",
        "postgresql 16",
        "db01.eu.internal:5432",
        "https://wiki.example.com/x?y=1",
        "/etc/gateway/limits.yaml",
        "limits.yaml",
        "2026-01-15",
    ],
)
def test_holds_whole_tokens_whatever_their_case(grounds, phrase):
    assert grounds.hold(phrase)


@pytest.mark.parametrize(
    "phrase",
    ["42", "142", "427", "500", "12", "2.5", "30", "Fri", "Order Des", "rder Desk", "Postgres", "imits.yaml", "", "  "],
)
def test_does_not_hold_parts_of_tokens(grounds, phrase):
    assert not grounds.hold(phrase)


@pytest.mark.parametrize(
    "sentence",
    [
        "On 15 January 12 500 rows were read at 14:30.",
        "Version 2 runs for 90 seconds, and 3 teams met on Friday.",
        "The Order Desk uses PostgreSQL and read 12500 rows.",
        "It may work.",
        "One of the files is left.",
    ],
)
def test_finds_nothing_missing_in_what_was_said(grounds, sentence):
    assert grounds.missing(sentence) == []


@pytest.mark.parametrize(
    ("sentence", "missing"),
    [
        ("It read 12,501 rows.", ["12501"]),
        ("The limit is 42.", ["42"]),
        ("Five teams met.", ["five"]),
        ("They met tomorrow.", ["tomorrow"]),
        ("They met on Monday.", ["monday"]),
        ("On 15 March it ran.", ["march"]),
        ("It uses MySQL now.", ["MySQL"]),
        ("It reads /etc/passwd now.", ["/etc/passwd"]),
        ("Ticket OPS-1427 is open.", ["OPS-1427"]),
        ("They asked Amsterdam.", ["Amsterdam"]),
        ("The host is db02x.", ["db02x"]),
    ],
)
def test_names_what_is_missing(grounds, sentence, missing):
    assert grounds.missing(sentence) == missing


def test_a_comma_between_two_lists_of_digits_is_no_decimal_point():
    grounds = Grounds(["ports 80, 443 and 8443"])
    assert grounds.hold("80") and grounds.hold("443")
    assert not grounds.hold("80443")


def test_numbers_have_one_form():
    assert numbers("12,500 and 12_500, 2.50 at 9:05; 10.0.0.5:8421, two, x7y 90s v3") == [
        "12500",
        "12500",
        "2.50",
        "9:05",
        "10.0.0.5",
        "8421",
        "90",
        "3",
        "2",
    ]


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("We use PostgreSQL 16 on db01.eu.internal:5432.", ["PostgreSQL 16", "db01.eu.internal:5432"]),
        ("Ask the Order Desk about HTTP errors.", ["Order Desk", "HTTP"]),
        ("Set MAX_RETRIES=5 in `src/retry.py`, then flushQueue().", ["MAX_RETRIES", "src/retry.py", "flushQueue()"]),
        ("OPS-4417 moves the billing-api to eu-west-1.", ["OPS-4417", "billing-api", "eu-west-1"]),
        ("Look at #12 and v2.3.1.", ["#12", "v2.3.1"]),
        ("Mail ops@example.com about ~/notes/plan.md.", ["ops@example.com", "~/notes/plan.md"]),
        ("See https://example.com/a?b=1, or 10.0.0.5:8421.", ["https://example.com/a?b=1", "10.0.0.5:8421"]),
        ("src/app.py:12: it calls `None` at 24/7 and/or 3/4.", ["src/app.py"]),
        ("Maybe tomorrow. Please ask.", []),
    ],
)
def test_finds_names(sentence, found):
    assert list(names(sentence)) == found


def test_a_capital_at_the_beginning_of_a_sentence_makes_no_name_by_itself():
    assert list(names("Lantern is slow.")) == []
    assert list(names("Lantern is slow.", {"Lantern"})) == ["Lantern"]


def test_clean_drops_what_no_summary_can_carry():
    assert clean("a\x00b\ud800c\u0007\r\nd\te 👍🏽 שלום") == "a b c \nd\te 👍🏽 שלום"


def test_normalized_is_idempotent():
    text = "«Ⅻ»  12 500 – Straße’s １２"
    assert normalized(normalized(text)) == normalized(text)


@pytest.mark.parametrize(
    "piece",
    ["a", "1", "1,111", "111 ", "A ", "a.b", "/a", "-", "_a", "'", "1.", "aA", "(", "**", "`", "1:", "\u0301", "=a"],
)
def test_a_megabyte_of_one_kind_is_read(piece):
    """A pattern that went back and forth over it would not come to an end."""
    text = (piece * (1 << 20))[: 1 << 20]
    grounds = Grounds([text])
    assert all(len(name) <= 700 for name in names(text))
    assert not grounds.hold("lantern")
    assert not grounds.hold("7")
    assert "77" in grounds.missing(text[:5000] + " lantern 77")
