"""How the answering role calls a tool: in words, as a shell command, as a function call, as a JSON object."""

from __future__ import annotations

import json
import random

from remory.training.generator.grammar import expand, expand_any
from remory.training.generator.statements import split_lines
from remory.training.generator.words import chance, pick
from remory.training.sessions import Turn, say

_INTROS = split_lines("""
    Let me look.
    I will check.
    One moment.
    Looking it up.
    Let me see what is there.
    Checking <module>.
    I will run it.
    First a look at the file.
    Running that now.
    Let me get the output.
    Going through <folder>.
    I want to see this for myself.
    Right, reading it.
    Let me query it.
    Trying it out.
""")
_COMMANDS = split_lines("""
    cat <path>
    grep -rn <function> <folder>
    ls -la <folder>
    sed -n 1,40p <path>
    git log --oneline -<digit>
    git diff <branch>
    head -<small> <path>
    tail -n <small> <path>
    docker ps
    kubectl get pods
    curl -s <url>
    make <word>
    ssh <host> uptime
    find <folder> -name "*.<word>"
    psql -c "select * from <plural> limit <digit>"
    systemctl status <service>
    journalctl -u <service> -n <digit>
    python -m <word> <flag>
    du -sh <folder>
    jq .<word> <path>
    cargo test <word>
    npm run <word>
    less <path>
    diff <path> <path>
""")
_NAMES = ("run", "bash", "read_file", "open", "search", "query", "shell", "fetch", "list_dir", "view", "execute", "get")


def call(r: random.Random, command: str = "") -> Turn:
    """A message that calls a tool; without a command, one is drawn. Nothing in it is marked."""
    command = command or expand(r, pick(r, _COMMANDS))
    name = pick(r, _NAMES)
    forms = (
        f"$ {command}",
        f"```\n{command}\n```",
        f'{name}("{command}")',
        json.dumps({"name": name, "arguments": {"command": command}}),
        f"`{command}`",
        f"[{name}] {command}",
        f"Calling {name} with {command}",
        f"<{name}>{command}</{name}>",
        "",
    )
    form = pick(r, forms)
    intro = expand_any(r, _INTROS) if chance(r, 0.6) or not form else ""
    return say("assistant", "\n".join(part for part in (intro, form) if part))
