"""Notes against a real server process, with the embedded model."""

from __future__ import annotations

import subprocess
import sys
from uuid import UUID, uuid4

import pytest

from remory import Client, Notes
from remory.cli import main
from remory.client import Forbidden, InvalidRequest, Note, NotFound, Unauthorized

LINES = [
    ("The nightly build of the search service starts at 02:40.", {"team": "search", "kind": "fact"}),
    ("The payment team deploys on Tuesdays only.", {"team": "payment", "kind": "rule"}),
    ("Logs of the gateway are kept for 30 days.", {"team": "gateway", "kind": "rule", "place": {"region": "north"}}),
]


@pytest.fixture
def notes(server, request):
    """The notes of a user that no other test has."""
    with Client(server.url, user=request.node.name[:200]) as client:
        yield Notes(client)


@pytest.fixture
def saved(notes):
    """The ids of `LINES`."""
    return [notes.save(text, metadata) for text, metadata in LINES]


class TestNotes:
    def test_save_recall_and_delete(self, notes, saved):
        assert all(str(UUID(id)) == id for id in saved)
        found = notes.recall("When does the build of search begin?")
        assert {note.id for note in found} == set(saved)
        assert (found[0].id, found[0].content, found[0].metadata) == (saved[0], *LINES[0])
        assert 1 >= found[0].score > found[1].score >= found[2].score >= -1
        assert notes.delete(saved[0]) is None
        assert saved[0] not in [note.id for note in notes.recall("When does the build of search begin?")]
        with pytest.raises(NotFound) as caught:
            notes.delete(saved[0])
        assert (caught.value.status, caught.value.code) == (404, "not_found") and saved[0] in str(caught.value)

    def test_a_note_is_replaced_by_its_id(self, notes, saved):
        assert notes.save("The nightly build starts at 04:15.", id=saved[0]) == saved[0]
        assert [(note.content, note.metadata) for note in notes if note.id == saved[0]] == [
            ("The nightly build starts at 04:15.", {})
        ]
        own = str(uuid4())
        assert notes.save("A note under an id of the caller's.", id=own) == own
        assert len(list(notes)) == 4

    @pytest.mark.parametrize(
        ("filter", "places"),
        [
            ({"kind": "rule"}, {1, 2}),
            ({"team": ["search", "payment"]}, {0, 1}),
            ({"place.region": "north"}, {2}),
            ({"kind": "rule", "team": "search"}, set()),
            ({}, {0, 1, 2}),
        ],
    )
    def test_filters(self, notes, saved, filter, places):
        found = notes.recall("What is kept, and for how long?", top_k=100, filter=filter)
        assert {saved.index(note.id) for note in found} == places

    def test_top_k_and_mode(self, notes, saved):
        assert [note.id for note in notes.recall("When does the search service build?", top_k=1)] == [saved[0]]
        for mode in ("cosine", "hybrid"):
            assert notes.recall("02:40", top_k=1, mode=mode)[0].id == saved[0]

    def test_pages(self, notes):
        ids = [notes.save(f"Note {number} about the build.") for number in range(7)]
        page = notes.list(limit=3)
        assert [note.id for note in page] == ids[:3] and len(page) == 3
        assert page.items[0] == Note(ids[0], "Note 0 about the build.", {})
        page = notes.list(limit=3, offset=page.next_offset)
        assert [note.id for note in page] == ids[3:6]
        page = notes.list(offset=page.next_offset)
        assert ([note.id for note in page], page.next_offset) == (ids[6:], None)
        assert [note.id for note in notes.list(limit=100, offset=5)] == ids[5:]
        with pytest.raises(InvalidRequest, match="offset"):
            notes.list(offset=str(uuid4()))

    def test_iterating_goes_over_all_pages_whatever_is_deleted_meanwhile(self, notes):
        ids = [notes.save(f"Note {number}.") for number in range(205)]
        assert [note.id for note in notes] == ids
        seen = []
        for note in notes:
            if not seen:
                # The note that would begin the second page.
                notes.delete(ids[100])
            seen.append(note.id)
        assert seen == ids[:100] + ids[101:]

    def test_nothing_is_there_at_first(self, notes):
        assert list(notes) == [] and notes.recall("Anything?") == []
        assert notes.list().next_offset is None

    @pytest.mark.parametrize("text", ["grün \U0001f680 שלום", "a\nb\t\u200fc", "x" * 65536])
    def test_texts_are_kept_exactly(self, notes, text):
        notes.save(text, {"text": "\U0001f680", "deep": {"list": [1, 2.5, None, True]}})
        (note,) = notes
        assert (note.content, note.metadata["deep"]) == (text, {"list": [1, 2.5, None, True]})

    @pytest.mark.parametrize(
        ("act", "words"),
        [
            (lambda notes: notes.save(" \n"), "params.memory.content"),
            (lambda notes: notes.save("x" * 65537), "65537"),
            (lambda notes: notes.save("\ud800"), ""),
            (lambda notes: notes.save("x", id="first"), "UUID"),
            (lambda notes: notes.save("x", {"long": "x" * 16384}), "16384"),
            (lambda notes: notes.save("x", {"number": float("nan")}), ""),
            (lambda notes: notes.recall(""), "params.queryText"),
            (lambda notes: notes.recall("x", top_k=0), "params.topK"),
            (lambda notes: notes.recall("x", mode="loud"), "params.mode"),
            (lambda notes: notes.list(limit=101), "params.limit"),
            (lambda notes: notes.delete("first"), "UUID"),
        ],
    )
    def test_what_cannot_be_used_is_refused(self, notes, act, words):
        with pytest.raises(InvalidRequest) as caught:
            act(notes)
        assert words in str(caught.value)
        assert list(notes) == []


class TestScopes:
    def test_each_user_has_notes_of_their_own(self, server, notes, saved):
        with Client(server.url, user="elsewhere") as client:
            other = Notes(client)
            assert other.recall("When does the build begin?", top_k=100) == []
            for act in (other.delete, lambda id: Notes(client, "global").delete(id)):
                with pytest.raises(NotFound):
                    act(saved[0])
            # The same id is another note there.
            assert other.save("Elsewhere's own.", id=saved[0]) == saved[0]
            assert [note.content for note in other] == ["Elsewhere's own."]
            other.delete(saved[0])
        assert [note.content for note in notes] == [text for text, _ in LINES]

    def test_global_notes_are_shared(self, server, notes):
        shared = Notes(notes.client, "global")
        id = shared.save("The staging cluster is rebuilt on Mondays.", {"of": "test_global"})
        assert list(notes) == []
        with Client(server.url, user="elsewhere") as client:
            found = Notes(client, "global").recall("When is staging rebuilt?", filter={"of": "test_global"})
            assert [note.id for note in found] == [id]
            Notes(client, "global").delete(id)
        with pytest.raises(NotFound):
            shared.delete(id)
        assert repr(Notes(notes.client, target_user="builds")) == "Notes('user', 'builds')"


def test_keys_and_on_behalf_of(start_server, tmp_path, capsys):
    def key(user, *roles):
        options = [part for role in roles for part in ("--role", role)]
        assert main(["keys", "add", "--user", user, *options, "--data", str(tmp_path)]) == 0
        return capsys.readouterr().out.strip()

    keys = {user: key(user, *roles) for user, roles in (("builds", ["invoke"]), ("helper", ["agent"]))}
    url = start_server(tmp_path).url
    with Client(url, key=keys["builds"]) as builds, Client(url, key=keys["helper"]) as helper:
        id = Notes(builds).save("Builds prefer short logs.")
        assert [note.id for note in Notes(builds, target_user="builds")] == [id]
        assert [note.id for note in Notes(helper, target_user="builds").recall("logs")] == [id]
        with pytest.raises(InvalidRequest, match="targetUserId") as caught:
            Notes(helper).recall("logs")
        assert (caught.value.status, caught.value.code) == (400, "invalid_params")
        with pytest.raises(Forbidden) as caught:
            Notes(builds, target_user="helper").recall("logs")
        assert (caught.value.status, caught.value.code) == (403, "forbidden")
    with Client(url) as nobody, pytest.raises(Unauthorized):
        Notes(nobody).recall("logs")


def test_the_client_of_notes_needs_no_torch():
    program = "import sys; from remory import Notes; print('torch' in sys.modules, 'numpy' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "False False\n"
