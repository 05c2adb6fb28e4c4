"""The command line as a user runs it: in processes of its own."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys

import pytest

from remory.cli import main
from tests.databases import PASSWORD, PASSWORD_IN_URL, ROLE_WITH_PASSWORD, database_of


def remory(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "remory.cli", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=120,
    )


def test_help_names_every_command_and_no_other():
    text = remory("--help").stdout
    for command in ("serve", "demo", "train", "eval", "mcp", "reembed", "doctor", "keys", "transcripts"):
        assert re.search(rf"\n    {command}\s", text)
    assert "bench" not in text


@pytest.mark.parametrize(
    "command",
    [
        ["serve"],
        ["demo"],
        ["mcp"],
        ["reembed"],
        ["doctor"],
        ["keys"],
        ["keys", "add"],
        ["keys", "revoke"],
        ["transcripts", "export"],
    ],
)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*command, "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("usage: remory")


def test_keys_are_made_listed_and_revoked(tmp_path, capsys):
    data = ["--data", str(tmp_path)]
    assert main(["keys", "add", "--user", "builds", "--role", "invoke", "--role", "agent", *data]) == 0
    key = capsys.readouterr().out.strip()
    assert key.startswith("rk_")
    assert main(["keys", "list", *data]) == 0
    listed = capsys.readouterr().out
    assert "builds" in listed and "invoke,agent" in listed and "live" in listed and key not in listed
    assert main(["keys", "revoke", "1", *data]) == 0
    assert main(["keys", "list", *data]) == 0
    assert "revoked" in capsys.readouterr().out
    assert main(["keys", "revoke", "1", *data]) == 1
    assert "no live key 1" in capsys.readouterr().err


def keys_listed(capsys, *arguments):
    assert main(["keys", "list", *arguments]) == 0
    return capsys.readouterr().out


def test_keys_of_a_database(tmp_path, capsys, monkeypatch, postgresql_url):
    monkeypatch.setenv("REMORY_DATA", str(tmp_path / "data"))
    assert main(["keys", "add", "--user", "builds", "--role", "invoke", "--store", postgresql_url]) == 0
    capsys.readouterr()
    assert "builds" in keys_listed(capsys, "--store", postgresql_url)
    assert keys_listed(capsys) == ""
    monkeypatch.setenv("REMORY_STORE", postgresql_url)
    assert "builds" in keys_listed(capsys)
    assert keys_listed(capsys, "--data", str(tmp_path / "named")) == ""
    assert main(["keys", "revoke", "1"]) == 0
    assert "revoked" in keys_listed(capsys)


@pytest.mark.parametrize("command", [["serve"], ["keys", "add"], ["keys", "list"], ["keys", "revoke"], ["doctor"]])
def test_help_says_where_a_password_belongs(command, capsys):
    with pytest.raises(SystemExit):
        main([*command, "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "Others on this machine can see a command line" in said and "~/.pgpass" in said


def one_line(text):
    lines = text.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("remory: "), text
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "without keys"),
        (["--backend", "other"], "backend must be one of"),
        (["--port", "70000"], "port must be in"),
        (["--host", "no.such.host.invalid"], "cannot listen on"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(tmp_path, arguments, words):
    done = remory("serve", "--data", str(tmp_path), *arguments)
    assert done.returncode == 1
    assert words in one_line(done.stderr)


def test_a_port_in_use(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = remory("serve", "--data", str(tmp_path), "--port", str(port))
    assert done.returncode == 1
    assert f"port {port}" in one_line(done.stderr) and "--port 0" in done.stderr


def test_a_damaged_store(tmp_path):
    (tmp_path / "remory.sqlite3").write_bytes(b"no database " * 500)
    done = remory("serve", "--data", str(tmp_path), "--port", "0")
    assert done.returncode == 1
    assert "damaged" in one_line(done.stderr)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://localhost/name", "must begin with postgresql://"),
        (f"postgresql://user:{PASSWORD_IN_URL}@/name?host=/nowhere", "PostgreSQL database name on /nowhere as user"),
    ],
)
def test_a_database_that_cannot_be_used(url, words):
    done = remory("serve", "--store", url, "--port", "0")
    assert done.returncode == 1
    assert words in one_line(done.stderr)
    assert PASSWORD not in done.stderr and PASSWORD_IN_URL not in done.stderr


@pytest.mark.parametrize("option", ["--model", "--checkpoint"])
def test_a_missing_model_or_checkpoint(tmp_path, tiny_actor, option):
    model = [] if option == "--model" else ["--model", str(tiny_actor)]
    missing = str(tmp_path / "missing")
    done = remory("serve", "--data", str(tmp_path), "--port", "0", *model, option, missing)
    assert done.returncode != 0
    assert missing in done.stderr and "Traceback" not in done.stderr


def test_doctor_finds_this_installation_in_order(tmp_path):
    done = remory("doctor", "--data", str(tmp_path), COLUMNS="200")
    assert done.returncode == 0, done.stdout
    assert "broken" not in done.stdout
    assert "smollm2-135m, trained, strategy frontier" in done.stdout and "cpu" in done.stdout


def test_doctor_finds_what_is_broken(tmp_path, tiny_actor):
    (tmp_path / "remory.sqlite3").write_bytes(b"no database " * 500)
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    arguments = ["--data", str(tmp_path), "--model", str(tiny_actor), "--checkpoint", str(checkpoint)]
    done = remory("doctor", *arguments, COLUMNS="200")
    assert done.returncode == 1
    broken = [line for line in done.stdout.splitlines() if line.strip().startswith("broken")]
    assert [line.split()[1] for line in broken] == ["checkpoint", "store"]


def test_doctor_asks_the_interpreter_that_is_to_use_the_device(tmp_path):
    done = remory("doctor", "--data", str(tmp_path), "--sglang-python", sys.executable, COLUMNS="200")
    assert re.search(rf"device +cpu, torch \S+ of {sys.executable} sees \d+ GPUs", done.stdout)
    done = remory("doctor", "--data", str(tmp_path), "--sglang-python", "/no/python", COLUMNS="200")
    assert done.returncode == 1
    assert done.stdout.count("there is no interpreter /no/python") == 2


def test_doctor_looks_at_a_database(postgresql, postgresql_url):
    name = database_of(postgresql_url)
    url = postgresql.url(name, f"{ROLE_WITH_PASSWORD}:{PASSWORD_IN_URL}")
    done = remory("doctor", REMORY_STORE=url, COLUMNS="200")
    assert done.returncode == 1
    assert "GRANT CREATE ON SCHEMA" in done.stdout
    postgresql.run(f"GRANT CREATE ON SCHEMA public TO {ROLE_WITH_PASSWORD}", name)
    done = remory("doctor", "--store", url, COLUMNS="200")
    assert done.returncode == 0, done.stdout
    assert f"PostgreSQL database {name}" in done.stdout and "healthy" in done.stdout
    assert PASSWORD not in done.stdout and PASSWORD_IN_URL not in done.stdout


def test_sizes(capsys):
    from remory.cli import _parser

    for text, size in (("512M", 512 << 20), ("2g", 2 << 30), ("4096", 4096), ("0", 0)):
        assert _parser().parse_args(["serve", "--cache-bytes", text]).cache_bytes == size
    for text in ("", "M", "-1", "1.5G", "many"):
        with pytest.raises(SystemExit):
            _parser().parse_args(["serve", f"--cache-bytes={text}"])
