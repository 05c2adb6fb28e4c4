"""`remory mcp` as agents use it: the real command, over both transports, by the official package's own client."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from contextlib import asynccontextmanager, closing, contextmanager
from urllib.parse import urlsplit

import httpx
import httpx2
import jsonschema
import pytest
from mcp import Client as Agent
from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from remory import Client, Harness, Notes
from remory.cli import main
from remory.client.rendering import split
from remory.mcp_server import Options

SESSION_TOOLS = ["compact_session", "continue_session", "list_session_memories", "delete_session_memory"]
NOTE_TOOLS = ["save_note", "recall_notes", "list_notes", "delete_note"]
TOKEN = "a-bearer-token-of-its-own"
TOOLS = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}]
CONVERSATION = [
    {"role": "system", "content": "You are a terse assistant."},
    {"role": "user", "content": "Find out why the build of the parser fails."},
    {"role": "assistant", "content": "I look.", "tool_calls": [{"id": "1", "function": {"name": "run"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "3 tests fail in the parser. " * 8},
    {"role": "assistant", "content": "The parser drops the last line."},
    {"role": "user", "content": "Mend it."},
    {"role": "assistant", "content": "It is mended."},
]
MORE = {"role": "assistant", "content": "The parser reads to the end of the file now. " * 8}
SHORT = {"max_summary_tokens": 24}
QUESTION = {"role": "user", "content": "How many tests failed?"}


def command(*arguments):
    return [sys.executable, "-m", "remory.cli", "mcp", *arguments]


def over_stdio(*arguments, mode="auto", **environment):
    program, *rest = command(*arguments)
    return Agent(StdioServerParameters(command=program, args=rest, env=environment), mode=mode)


@contextmanager
def served_over_http(*arguments, **environment):
    """The URL of a `remory mcp --transport http` on a free port."""
    process = subprocess.Popen(
        command("--transport", "http", "--port", "0", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    try:
        line = process.stderr.readline()
        found = re.fullmatch(r"Remory's MCP server is ready at (http://\S+)\n", line)
        assert found, line + process.stderr.read()
        yield found[1]
    finally:
        process.terminate()
        said, _ = process.communicate(timeout=30)
        assert said == ""


@asynccontextmanager
async def over_http(url, token=None):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=120) as http,
        Agent(streamable_http_client(url, http_client=http)) as agent,
    ):
        yield agent


@pytest.fixture(params=["stdio", "stdio of 2025", "http"])
def agent(request, server, client):
    """Opens a connection to a `remory mcp` of this test's session: over each transport, and as older agents do it."""
    arguments = ("--url", server.url, "--session", client.session)
    if request.param == "http":
        with served_over_http(*arguments) as url:
            yield lambda: over_http(url)
    else:
        yield lambda: over_stdio(*arguments, mode="legacy" if "2025" in request.param else "auto")


async def call(agent, tool, **arguments):
    """The structured result of a call that succeeds."""
    done = await agent.call_tool(tool, arguments)
    assert not done.is_error, done.content[0].text
    assert json.loads(done.content[0].text) == done.structured_content
    return done.structured_content


async def refusal(agent, tool, **arguments):
    """What a call that fails says."""
    done = await agent.call_tool(tool, arguments)
    assert done.is_error
    return done.content[0].text


class TestSessions:
    def test_a_session_is_compacted_continued_listed_and_deleted(self, agent, client):
        async def work():
            async with agent() as tools:
                first = await call(tools, "compact_session", messages=CONVERSATION, tools=TOOLS, keep_last=2, **SHORT)
                going_on = [*first["messages"], QUESTION]
                answer = await call(
                    tools,
                    "continue_session",
                    handle=first["handle"],
                    messages=going_on,
                    tools=TOOLS,
                    max_new_tokens=8,
                )
                second = await call(
                    tools,
                    "compact_session",
                    messages=[*going_on, MORE, QUESTION],
                    tools=TOOLS,
                    keep_last=1,
                    previous=first["handle"],
                    bridge=first["bridge"],
                    **SHORT,
                )
                listed = await call(tools, "list_session_memories")
                newest = await call(tools, "list_session_memories", limit=1)
                gone = await call(tools, "delete_session_memory", handle=first["handle"])
                left = await call(tools, "list_session_memories")
                return first, answer, second, listed, newest, gone, left

        first, answer, second, listed, newest, gone, left = asyncio.run(work())
        assert first["messages"] == CONVERSATION[:2] + CONVERSATION[-2:]
        assert (first["removed_messages"], second["removed_messages"]) == (3, 4)
        assert [one["handle"] for one in listed["memories"]] == [second["handle"], first["handle"]]
        assert [one["previous"] for one in listed["memories"]] == [first["handle"], None]
        assert [one["summary"] for one in listed["memories"]] == [second["summary"], first["summary"]]
        assert (newest["memories"], newest["total"]) == (listed["memories"][:1], 2)
        assert gone == {"handle": first["handle"], "deleted": True}
        assert [one["handle"] for one in left["memories"]] == [second["handle"]]
        assert [one["handle"] for one in client.memories()] == [second["handle"]]
        assert second["memory_rows"] == client.memory(second["handle"])["receipt"]["soft_tokens"]
        assert answer["new_tokens"] <= 8 and answer["finish_reason"] in ("stop", "length")

    def test_the_answer_is_the_one_that_the_harness_gets(self, server, client):
        chat = Harness(client, CONVERSATION, TOOLS, keep_last=2, summary_sampling={"max_new_tokens": 24})
        done = chat.compact()
        expected = chat.generate(QUESTION["content"], keep=False, max_new_tokens=12)

        async def work():
            async with over_stdio("--url", server.url, "--session", client.session) as tools:
                messages = [*chat.messages, QUESTION]
                options = {"tools": TOOLS, "max_new_tokens": 12}
                return await call(tools, "continue_session", handle=done.handle, messages=messages, **options)

        answer = asyncio.run(work())
        assert answer["text"] == expected.text
        assert answer["context_tokens"] == expected.context_tokens
        assert answer["new_tokens"] == len(expected.output_ids)

    def test_a_conversation_without_a_task_in_front(self, agent):
        messages = [CONVERSATION[0], *CONVERSATION[2:5], *CONVERSATION[5:]]

        async def work():
            async with agent() as tools:
                done = await call(tools, "compact_session", messages=messages, keep_last=2, **SHORT)
                assert done["messages"] == [messages[0], *messages[-2:]]
                assert len(split(done["messages"], 0).prefix) == 2
                return await call(
                    tools,
                    "continue_session",
                    handle=done["handle"],
                    messages=[*done["messages"], QUESTION],
                    max_new_tokens=4,
                )

        assert asyncio.run(work())["new_tokens"] <= 4

    def test_what_does_not_fit_is_said_and_the_next_call_works(self, agent):
        async def work():
            async with agent() as tools:
                done = await call(tools, "compact_session", messages=CONVERSATION, **SHORT)
                handle = done["handle"]
                other = [{"role": "user", "content": "Something else."}, QUESTION]
                said = {
                    "other messages": await refusal(tools, "continue_session", handle=handle, messages=other),
                    "unknown": await refusal(tools, "continue_session", handle="rm_0", messages=done["messages"]),
                    "deleted": await refusal(tools, "delete_session_memory", handle="rm_0"),
                    "too little": await refusal(tools, "compact_session", messages=CONVERSATION[:2]),
                    "no messages": await refusal(tools, "compact_session", messages=[]),
                    "no role": await refusal(tools, "compact_session", messages=[{"content": "x"}]),
                    "previous": await refusal(tools, "compact_session", messages=CONVERSATION, previous="rm_0"),
                }
                return said, await call(tools, "list_session_memories")

        said, listed = asyncio.run(work())
        assert "do not begin like those" in said["other messages"]
        assert "404" in said["unknown"] and "rm_0" in said["unknown"]
        assert "404" in said["deleted"] and "404" in said["previous"]
        assert "nothing to compact: the 2 messages of the prefix" in said["too little"]
        assert "messages" in said["no messages"] and "role" in said["no role"]
        assert not any("Traceback" in text for text in said.values())
        assert listed["total"] == 1

    def test_another_session_sees_nothing(self, agent, server):
        async def work():
            async with agent() as tools:
                handle = (await call(tools, "compact_session", messages=CONVERSATION, **SHORT))["handle"]
            async with over_stdio("--url", server.url, "--session", "elsewhere") as others:
                assert (await call(others, "list_session_memories"))["total"] == 0
                return await refusal(others, "delete_session_memory", handle=handle)

        assert "404" in asyncio.run(work())


class TestNotes:
    def test_notes_are_saved_recalled_listed_and_deleted(self, agent, server, request):
        mark = request.node.name

        async def work():
            async with agent() as tools:
                texts = {"The build starts at 02:40.": "fact", "Deploys are on Tuesdays.": "rule", "Logs stay.": "rule"}
                ids = [
                    (await call(tools, "save_note", content=text, metadata={"kind": kind, "mark": mark}))["id"]
                    for text, kind in texts.items()
                ]
                own = {"mark": mark}
                found = await call(tools, "recall_notes", query="When does the build begin?", filter=own)
                rules = await call(tools, "recall_notes", query="build", filter=own | {"kind": "rule"}, top_k=1)
                exact = await call(tools, "recall_notes", query="02:40", filter=own, mode="hybrid", top_k=1)
                changed = await call(tools, "save_note", content="The build starts at 04:15.", id=ids[0])
                page = await call(tools, "list_notes", limit=2)
                rest = await call(tools, "list_notes", limit=100, offset=page["next_offset"])
                gone = [await call(tools, "delete_note", id=id) for id in ids]
                left = await call(tools, "list_notes", limit=100)
                again = await refusal(tools, "delete_note", id=ids[0])
                return ids, found, rules, exact, changed, page["notes"] + rest["notes"], gone, left, again

        ids, found, rules, exact, changed, listed, gone, left, again = asyncio.run(work())
        assert found["notes"][0]["id"] == ids[0] and len(found["notes"]) == 3
        assert -1 <= found["notes"][-1]["score"] < found["notes"][0]["score"] <= 1
        assert rules["notes"][0]["metadata"]["kind"] == "rule"
        assert [note["id"] for note in exact["notes"]] == [ids[0]]
        assert changed == {"id": ids[0]}
        own = [note for note in listed if note["id"] in ids]
        assert [note["content"] for note in own] == [
            "The build starts at 04:15.",
            "Deploys are on Tuesdays.",
            "Logs stay.",
        ]
        assert gone == [{"id": id, "deleted": True} for id in ids]
        assert not {note["id"] for note in left["notes"]} & set(ids)
        assert "404" in again and ids[0] in again

    def test_global_notes(self, server):
        async def work():
            async with over_stdio("--url", server.url) as tools:
                id = (await call(tools, "save_note", content="Staging is rebuilt on Mondays.", scope="global"))["id"]
                with Client(server.url, user="elsewhere") as client:
                    seen = [note.id for note in Notes(client, "global")]
                missing = await refusal(tools, "delete_note", id=id)
                await call(tools, "delete_note", id=id, scope="global")
                return id, seen, missing

        id, seen, missing = asyncio.run(work())
        assert id in seen and "404" in missing

    def test_an_agents_key_keeps_the_notes_of_the_user_it_was_started_for(self, start_server, tmp_path, capsys):
        keys = {}
        for user, role in (("helper", "agent"), ("builds", "invoke")):
            assert main(["keys", "add", "--user", user, "--role", role, "--data", str(tmp_path)]) == 0
            keys[user] = capsys.readouterr().out.strip()
        url = start_server(tmp_path).url

        async def work(*arguments):
            async with over_stdio("--url", url, *arguments, REMORY_KEY=keys["helper"]) as tools:
                await tools.call_tool("save_note", {"content": "For all.", "scope": "global"})
                return await tools.call_tool("save_note", {"content": "Builds prefer short logs."})

        assert not asyncio.run(work("--target-user", "builds")).is_error
        refused = asyncio.run(work())
        assert refused.is_error and "targetUserId" in refused.content[0].text
        with Client(url, key=keys["builds"]) as client:
            assert [note.content for note in Notes(client)] == ["Builds prefer short logs."]
            assert [note.content for note in Notes(client, "global")] == ["For all.", "For all."]


class TestTools:
    def test_each_says_what_it_takes_and_gives(self, agent):
        async def work():
            async with agent() as tools:
                return tools.instructions, (await tools.list_tools()).tools

        instructions, tools = asyncio.run(work())
        assert [tool.name for tool in tools] == NOTE_TOOLS + SESSION_TOOLS
        for tool in tools:
            assert tool.name in instructions
            assert tool.description.startswith(tool.description.strip()) and len(tool.description) > 60
            assert "Use it" in tool.description
            for schema in (tool.input_schema, tool.output_schema):
                jsonschema.Draft202012Validator.check_schema(schema)
            for name, parameter in tool.input_schema["properties"].items():
                assert parameter.get("description"), (tool.name, name)
        hints = {tool.name: (tool.annotations.read_only_hint, tool.annotations.destructive_hint) for tool in tools}
        assert hints["recall_notes"] == (True, None) and hints["delete_session_memory"] == (False, True)

    def test_arguments_that_are_no_json_or_do_not_fit(self, server):
        async def work():
            async with over_stdio("--url", server.url) as tools:
                return [
                    await refusal(tools, "recall_notes", query="x", top_k=0),
                    await refusal(tools, "recall_notes", query=""),
                    await refusal(tools, "save_note", content="x", scope="everybody"),
                    await refusal(tools, "list_notes", limit=101),
                    await refusal(tools, "continue_session", handle="rm_0"),
                    await refusal(tools, "compact_session", messages=[{"role": "narrator", "content": "x"}]),
                ]

        for text, name in zip(
            asyncio.run(work()), ("top_k", "query", "scope", "limit", "messages", "role"), strict=True
        ):
            assert name in text


def free_port():
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        return taken.getsockname()[1]


class TestService:
    def test_a_service_that_comes_later_is_used_from_then_on(self, start_server, tmp_path):
        port = free_port()

        async def work():
            async with over_stdio("--url", f"http://127.0.0.1:{port}") as tools:
                said = [await refusal(tools, "compact_session", messages=CONVERSATION)]
                said.append(await refusal(tools, "save_note", content="The build takes 41 seconds."))
                started = await asyncio.to_thread(start_server, tmp_path / "data", "--port", str(port))
                before = (await call(tools, "list_session_memories"))["total"]
                await call(tools, "compact_session", messages=CONVERSATION, **SHORT)
                started.kill()
                said.append(await refusal(tools, "list_session_memories"))
                await asyncio.to_thread(start_server, tmp_path / "data", "--port", str(port))
                return said, before, (await call(tools, "list_session_memories"))["total"]

        said, before, after = asyncio.run(work())
        for text in said[:2]:
            assert f"no Remory service answers at http://127.0.0.1:{port}; start one with `remory serve`" in text
        assert "Traceback" not in said[2] and str(port) in said[2]
        assert (before, after) == (0, 1)

    def test_what_is_no_remory_service(self):
        async def work(url):
            async with over_stdio("--url", url) as tools:
                return await refusal(tools, "list_session_memories")

        with served_over_http() as url:
            assert "404" in asyncio.run(work(url.removesuffix("/mcp")))

    def test_keys(self, start_server, tmp_path, capsys):
        assert main(["keys", "add", "--user", "builds", "--role", "invoke", "--data", str(tmp_path)]) == 0
        key = capsys.readouterr().out.strip()
        url = start_server(tmp_path).url

        async def work(*arguments, **environment):
            async with over_stdio("--url", url, *arguments, **environment) as tools:
                return await tools.call_tool("list_session_memories", {})

        assert not asyncio.run(work(REMORY_KEY=key)).is_error
        assert not asyncio.run(work("--key", key, REMORY_KEY="rk_other")).is_error
        for environment in ({}, {"REMORY_KEY": key[:-1] + "?"}):
            refused = asyncio.run(work(**environment))
            assert refused.is_error and "401" in refused.content[0].text
            assert key[3:-1] not in str(refused)


def test_stdout_carries_the_protocol_alone_and_closing_stdin_ends_it(server):
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    calls = [("compact_session", {"messages": CONVERSATION[:2]}), ("nothing", {}), ("list_session_memories", {})]
    sent = [
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "tools/call",
            "params": {"name": name, "arguments": arguments, "_meta": meta},
        }
        for number, (name, arguments) in enumerate(calls)
    ]
    lines = [json.dumps(request) for request in sent]
    lines += ["no json", '{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": []}', "\\ud800"]
    process = subprocess.Popen(
        command("--url", server.url), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdin.write("\n".join([*lines, ""]))
    process.stdin.flush()
    answers = []
    while not {0, 1, 2} <= {answer.get("id") for answer in answers}:
        answers.append(json.loads(process.stdout.readline()))
    rest, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    answers += map(json.loads, rest.splitlines())
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    assert "Traceback" not in said


class TestHTTP:
    def test_only_our_own_names_are_answered(self, server):
        request = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        accept = {"Accept": "application/json, text/event-stream"}
        with served_over_http("--url", server.url, "--allow-host", "tools.example") as url:
            port = urlsplit(url).port

            def status(**headers):
                return httpx.post(url, json=request, headers=accept | headers).status_code

            assert status() == 200
            assert status(Host=f"localhost:{port}") == 200
            assert status(Host="tools.example") == 200
            assert status(Origin=f"http://127.0.0.1:{port}") == 200
            assert status(Host="rebound.example") == 421
            assert status(Host=f"rebound.example:{port}") == 421
            assert status(Host=f"127.0.0.1.rebound.example:{port}") == 421
            assert status(Origin="https://rebound.example") == 403
            assert status(Origin="null") == 403

    def test_it_listens_on_loopback_alone(self, server):
        with served_over_http("--url", server.url) as url:
            port = urlsplit(url).port
            assert urlsplit(url).hostname == "127.0.0.1"
            # Another loopback address stands for all other addresses of the machine.
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.2", port), timeout=10)

    def test_with_a_token_nothing_else_is_answered(self, server):
        async def work(url, token):
            async with over_http(url, token) as tools:
                return await call(tools, "list_session_memories")

        with served_over_http("--url", server.url, "--host", "0.0.0.0", REMORY_MCP_TOKEN=TOKEN) as url:
            reached = f"http://127.0.0.1:{urlsplit(url).port}/mcp"
            assert asyncio.run(work(reached, TOKEN)) == {"memories": [], "total": 0}
            for headers in (
                {},
                {"Authorization": f"Bearer {TOKEN[:-1]}"},
                {"Authorization": f"Basic {TOKEN}"},
                {"Authorization": b"Bearer \xff"},
                {"X-API-Key": TOKEN},
            ):
                for method in ("GET", "POST", "DELETE", "OPTIONS"):
                    answer = httpx.request(method, reached, headers=headers)
                    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
                    assert TOKEN[:-1] not in answer.text

    def test_a_port_in_use(self):
        with closing(socket.create_server(("127.0.0.1", 0))) as taken:
            port = str(taken.getsockname()[1])
            assert f"127.0.0.1:{port}" in refused("--transport", "http", "--port", port)


def refused(*arguments, **environment):
    """The one line that a command says which cannot run."""
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=60, env=os.environ | environment, input=""
    )
    assert done.returncode == 1 and done.stdout == ""
    assert re.fullmatch(r"remory: .*\n", done.stderr), done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["--transport", "http", "--host", "0.0.0.0"], {}, "set $REMORY_MCP_TOKEN"),
        (["--transport", "http", "--host", "build.example"], {}, "set $REMORY_MCP_TOKEN"),
        (["--transport", "http", "--host", "0.0.0.0"], {"REMORY_MCP_TOKEN": "guessable"}, "16 or more"),
        (["--transport", "http"], {"REMORY_MCP_TOKEN": ""}, "16 or more"),
        (["--transport", "http", "--port", "70000"], {}, "--port must be in 0 to 65535, got 70000"),
        (["--url", "127.0.0.1:8421"], {}, "--url must be that of a Remory service"),
        (["--url", "http://[::1"], {}, "--url must be that of a Remory service"),
        (["--url", "http://127.0.0.1:99999"], {}, "--url must be that of a Remory service"),
        (["--url", "http://127.0.0.1:84 21"], {}, "--url must be that of a Remory service"),
        (["--url", "http://name:sesame@127.0.0.1"], {}, "give the key by $REMORY_KEY"),
        (["--session", ""], {}, "--session must be 1 to 256"),
        (["--session", "zwölf"], {}, "--session must be 1 to 256"),
        (["--target-user", "a" * 257], {}, "--target-user must be 1 to 256 printable ASCII characters, got 257"),
        ([], {"REMORY_KEY": "rk_sesame\n"}, "printable ASCII without spaces"),
        ([], {"REMORY_KEY": "rk_sesämé"}, "printable ASCII without spaces"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(arguments, environment, words):
    said = refused(*arguments, **environment)
    assert words in said
    assert "ses" not in said.replace("session", "") and "guessable" not in said


def test_without_the_package_it_says_what_to_install(tmp_path):
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError(\"No module named 'mcp'\", name='mcp')")
    said = refused(PYTHONPATH=str(tmp_path))
    assert "needs the package mcp: pip install 'remory[mcp]'" in said


def test_it_starts_without_torch():
    program = "import sys, remory.mcp_server; print('torch' in sys.modules, 'numpy' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "False False\n"


def test_help_says_where_the_key_belongs(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["mcp", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert caught.value.code == 0
    assert "$REMORY_KEY, which others on this machine cannot see" in said and "$REMORY_MCP_TOKEN" in said


def test_options_keep_their_secrets():
    options = Options(url="http://127.0.0.1:8421", session="mcp", key="rk_sesame", token="sesame" * 4)
    assert "sesame" not in repr(options)
