"""The client against a real server process."""

from __future__ import annotations

import socket
import threading

import pytest

from remory import Client
from remory.client import (
    ConnectionFailed,
    InvalidRequest,
    NotFound,
    RemoryHTTPError,
    ServerFailed,
    Unauthorized,
)
from remory.errors import InvalidInput, RemoryError

GREEDY = {"temperature": 0.0, "max_new_tokens": 8, "ignore_eos": True}


def test_generate_by_text_ids_and_lists(client):
    ids = client.tokenize("The build takes 41 seconds")
    by_text = client.generate("The build takes 41 seconds", sampling_params=GREEDY)
    by_ids = client.generate(input_ids=ids, sampling_params=GREEDY)
    assert by_text["output_ids"] == by_ids["output_ids"]
    assert by_text["meta_info"]["prompt_tokens"] == len(ids)
    both = client.generate(input_ids=[ids, ids[:5]], sampling_params=GREEDY)
    assert [len(one["output_ids"]) for one in both] == [8, 8]
    assert both[0]["output_ids"] == by_ids["output_ids"]


def test_more_fields_go_into_the_body(client):
    answer = client.generate("ls", sampling_params=GREEDY, return_logprob=True, rid="mine")
    assert answer["meta_info"]["id"] == "mine"
    assert len(answer["meta_info"]["output_token_logprobs"]) == 8


def test_a_stream_is_cumulative_and_ends_as_the_plain_answer(client):
    with client.stream("The build", sampling_params=GREEDY) as stream:
        events = list(stream)
    counts = [event["meta_info"]["completion_tokens"] for event in events]
    assert counts == sorted(counts) and counts[-1] == 8
    assert events[-1]["output_ids"] == client.generate("The build", sampling_params=GREEDY)["output_ids"]
    assert events[-1]["meta_info"]["finish_reason"] == {"type": "length", "length": 8}


def test_closing_a_stream_lets_the_next_request_go(client):
    stream = client.stream("The build", sampling_params=GREEDY | {"max_new_tokens": 1500})
    assert next(stream)["output_ids"]
    stream.close()
    assert list(stream) == []
    assert client.generate("The build", sampling_params=GREEDY)["output_ids"]


def test_closing_a_stream_drops_events_that_have_arrived():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_at_once():
            connection, _ = listener.accept()
            connection.recv(65536)
            events = b'data: {"text": "a"}\n\n' * 3
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(events), events))
            connection.close()

        threading.Thread(target=answer_at_once, daemon=True).start()
        with Client(f"http://127.0.0.1:{listener.getsockname()[1]}") as client:
            stream = client.stream("a")
            assert next(stream) == {"text": "a"}
            stream.close()
            assert list(stream) == []


def test_errors_of_a_streamed_request_come_at_once(client):
    with pytest.raises(InvalidRequest) as caught:
        client.stream(input_ids=[10**6])
    assert caught.value.status == 400


def test_compact_list_show_generate_delete(client):
    prefix, history, summary = (client.tokenize(text) for text in ("the task", "some history " * 20, "in short"))
    made = client.compact(prefix, history, summary)
    handle = made["handle"]
    assert made["summary_ids"] == summary
    assert made["receipt"]["history_tokens"] == len(history)
    assert [memory["handle"] for memory in client.memories()] == [handle]
    assert client.memory(handle)["receipt"] == made["receipt"]

    again = client.compact(prefix, history, summary, previous=handle)
    assert again["receipt"]["previous"] == handle
    branched = client.compact(prefix, [], summary, branches=[handle])
    assert branched["receipt"]["branches"] == [handle]
    answer = client.generate(input_ids=client.tokenize("go on"), sampling_params=GREEDY, handle=handle)
    assert answer["meta_info"]["prompt_tokens"] > len(prefix) + len(summary) + made["receipt"]["soft_tokens"]

    client.delete(handle)
    with pytest.raises(NotFound):
        client.memory(handle)
    assert handle not in [memory["handle"] for memory in client.memories()]


def test_another_session_and_another_user_see_nothing(client, server):
    ids = client.tokenize("some history " * 20)
    handle = client.compact(ids[:4], ids, ids[:3])["handle"]
    for other in (Client(server.url, session="other"), Client(server.url, session=client.session, user="other")):
        with other, pytest.raises(NotFound):
            other.generate(input_ids=ids[:2], handle=handle)
    with Client(server.url) as without_session, pytest.raises(InvalidRequest, match="X-Remory-Session"):
        without_session.memories()


def test_compact_text(client):
    messages = [{"role": "user", "content": "count"}]
    for number in range(4):
        messages += [{"role": "assistant", "content": f"{number} files"}, {"role": "user", "content": "more"}]
    made = client.compact_text(messages, keep_last=2, max_summary_tokens=8)
    assert made["messages"] == messages[-2:]
    more = [messages[0], *made["messages"], {"role": "assistant", "content": "9"}, {"role": "user", "content": "?"}]
    again = client.compact_text(more, keep_last=1, previous=made["handle"], bridge=made["bridge"], max_summary_tokens=8)
    assert again["receipt"]["previous"] == made["handle"]


def test_tokenize_and_detokenize(client):
    ids = client.tokenize("port 8421")
    assert client.detokenize(ids) == "port 8421"
    assert client.tokenize(["port 8421", "ls"])[0] == ids
    assert client.detokenize([ids, ids]) == ["port 8421"] * 2
    messages = [{"role": "user", "content": "ls"}]
    plain = client.tokenize(messages=messages, add_generation_prompt=False)
    assert client.tokenize(messages=messages, add_generation_prompt=True)[: len(plain)] == plain


def test_info_health_ready(client):
    info = client.info()
    assert info["checkpoint"]["trained"] is False
    assert info["summary_contract"]["prompt"] == "Summarise the conversation."
    assert client.health()
    client.wait_ready(timeout=0)


@pytest.mark.parametrize(
    ("send", "status"),
    [
        (lambda client: client.generate(input_ids=[-1]), 400),
        (lambda client: client.generate("a", sampling_params={"nonsense": 1}), 422),
        (lambda client: client.generate(input_ids=[1] * 5000), 400),
        (lambda client: client.compact([1], [], [2]), 400),
    ],
)
def test_invalid_requests_are_typed_and_keep_the_services_words(client, send, status):
    with pytest.raises(InvalidRequest) as caught:
        send(client)
    assert caught.value.status == status
    assert caught.value.detail and caught.value.request_id
    assert isinstance(caught.value, InvalidInput)


def test_nothing_listens():
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        with Client(url) as client, pytest.raises(ConnectionFailed, match="remory serve") as caught:
            client.health()
        assert caught.value.status is None
        looks = []
        with Client(url) as client, pytest.raises(ConnectionFailed):
            client.wait_ready(timeout=0.3, progress=looks.append)
        assert looks == sorted(looks) and looks


def test_a_server_that_is_none_of_ours_is_told():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_html():
            for _ in range(2):
                connection, _ = listener.accept()
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\n<a/>")
                connection.close()

        threading.Thread(target=answer_html, daemon=True).start()
        with Client(f"http://127.0.0.1:{listener.getsockname()[1]}") as client:
            with pytest.raises(ServerFailed, match="is it a Remory service"):
                client.health()
            with pytest.raises(ConnectionFailed, match="before it was complete"):
                list(client.stream("a"))


def test_keys(start_server, tmp_path):
    from remory_service.identity import make_key, revoke_key

    key = make_key(tmp_path, "builds", ["invoke"])
    url = start_server(tmp_path).url
    with Client(url, key=key, session="s") as client:
        assert client.memories() == []
        with Client(url, session="s") as keyless, pytest.raises(Unauthorized) as caught:
            keyless.memories()
        assert caught.value.status == 401
        revoke_key(tmp_path, 1)
        with pytest.raises(Unauthorized):
            client.memories()


def test_all_errors_are_remorys():
    assert issubclass(RemoryHTTPError, RemoryError)
