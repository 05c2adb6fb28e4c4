"""Scenes whose facts stand in artefacts: configurations, tables, diffs, logs, test runs, commits, comments, records."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from remory.training.generator import facts, fillers, words
from remory.training.generator.calls import call
from remory.training.generator.grammar import expand
from remory.training.generator.statements import (
    Triple,
    bare,
    draw_rivals,
    fill,
    mark,
    split_lines,
    start,
    to_fact,
    write_clause,
)
from remory.training.generator.words import chance, pick
from remory.training.sessions import Fact, Scene, Turn, say, scene


def _key(r: random.Random, label: str) -> str:
    """A label as the key of a configuration, marked."""
    glue = pick(r, ("_", "_", "-", " ", "."))
    return f"[[{label.replace(' ', glue)}]]"


def _entity(triple: Triple) -> str:
    return mark(bare(triple.entity))


def _comment(r: random.Random, triples: Sequence[Triple]) -> list[Turn]:
    """Now and then a word of the answering role on what the tool gave, with nothing new in it."""
    if chance(r, 0.5):
        return [say("assistant", fillers.fillers(r, 1, 2))]
    if chance(r, 0.3):
        return [say("assistant", f"So it is {triples[0].answer}. {fillers.filler(r)}")]
    return []


# --- configurations --------------------------------------------------------------------------------------------------


def configure(r: random.Random) -> Scene:
    """A file or record about one entity is read: two or three of its keys."""
    triples = facts.draw_profile(r, r.choice((2, 3)))
    body = pick(r, (_as_yaml, _as_toml, _as_json, _as_equals, _as_flags, _as_xml))(r, triples)
    turns = [*_open(r), call(r), say("tool", body), *_comment(r, triples)]
    return scene(turns, [to_fact(r, triple) for triple in triples])


def _open(r: random.Random) -> list[Turn]:
    return [say("user", fillers.request(r))] if chance(r, 0.4) else []


def _as_yaml(r: random.Random, triples: Sequence[Triple]) -> str:
    quote = pick(r, ("", "", '"', "'"))
    lines = [f"  {_key(r, one.label)}: {quote}[[{one.answer}]]{quote}" for one in triples]
    return "\n".join([f"{_entity(triples[0])}:", *lines])


def _as_toml(r: random.Random, triples: Sequence[Triple]) -> str:
    lines = [f'{_key(r, one.label)} = "[[{one.answer}]]"' for one in triples]
    return "\n".join([f'["{_entity(triples[0])}"]', *lines])


def _as_json(r: random.Random, triples: Sequence[Triple]) -> str:
    glue = pick(r, (",\n  ", ", "))
    name = pick(r, ("name", "id", "target", "service", "item"))
    pairs = [f'"{_key(r, one.label)}": "[[{one.answer}]]"' for one in triples]
    return "{" + glue.join([f'"{name}": "{_entity(triples[0])}"', *pairs]) + "}"


def _as_equals(r: random.Random, triples: Sequence[Triple]) -> str:
    equal = pick(r, ("=", " = ", ": ", "\t", " := "))
    lines = [f"{_key(r, one.label)}{equal}[[{one.answer}]]" for one in triples]
    return "\n".join([f"# {_entity(triples[0])}", *lines])


def _as_flags(r: random.Random, triples: Sequence[Triple]) -> str:
    dashed = [f'--[[{one.label.replace(" ", "-")}]] "[[{one.answer}]]"' for one in triples]
    return f"{pick(r, ('exec', 'run', 'start', 'deploy', 'launch'))} {_entity(triples[0])} " + " \\\n  ".join(dashed)


def _as_xml(r: random.Random, triples: Sequence[Triple]) -> str:
    lines = [f'  <entry key="{_key(r, one.label)}">[[{one.answer}]]</entry>' for one in triples]
    return "\n".join([f'<section name="{_entity(triples[0])}">', *lines, "</section>"])


def pick_line(r: random.Random) -> Scene:
    """One key is wanted; it comes amid others, of which only the wanted one is marked."""
    triple = facts.draw(r)
    question = start(pick(r, triple.attribute.questions).replace("{e}", mark(triple.entity)))
    others = [f"{words.snake(r)}{{}}{_noise_value(r)}" for _ in range(r.randint(2, 5))]
    lines = [*others, f"{_key(r, triple.label)}{{}}[[{triple.answer}]]"]
    r.shuffle(lines)
    equal = pick(r, (": ", " = ", "=", " "))
    body = "\n".join(line.replace("{}", equal) for line in lines)
    turns = [say("user", question), call(r), say("tool", body), *_comment(r, [triple])]
    return scene(turns, [to_fact(r, triple)])


def _noise_value(r: random.Random) -> str:
    makers = (words.count, words.code_word, words.short_duration, words.snake, words.hexadecimal_short, words.decimal)
    return pick(r, (*makers, lambda q: pick(q, ("true", "false", "null", "on", "off", "auto", "none"))))(r)


# --- tables and records ----------------------------------------------------------------------------------------------


def tabulate(r: random.Random) -> Scene:
    """A table of two or three entities with one attribute each, at times with a column of no interest."""
    triples = draw_rivals(r, pick(r, facts.ATTRIBUTES), r.choice((2, 2, 3)), chance(r, 0.8))
    extra = [words.code_word(r) for _ in triples] if chance(r, 0.4) else []
    head = [pick(r, ("name", "item", "what", "entry", "id")), f"[[{triples[0].label}]]", *(["note"] if extra else [])]
    rows = [[_entity(one), mark(one.value), *extra[i : i + 1]] for i, one in enumerate(triples)]
    text = pick(r, (_as_pipes, _as_commas, _as_columns, _as_tabs))(head, rows)
    facts_told = [to_fact(r, triple) for triple in triples]
    if chance(r, 0.5):
        return scene([call(r), say("tool", text), *_comment(r, triples)], facts_told)
    intro = pick(
        r, ("Here is the overview.", "The table, for reference:", "Summed up:", "As it stands:", "Please use this:")
    )
    return scene([say(pick(r, ("user", "assistant")), f"{intro}\n{text}")], facts_told)


def _as_pipes(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _as_commas(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(",".join(line) for line in [head, *rows])


def _as_columns(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(
        "   ".join(line) for line in [[cell.upper() if "[[" not in cell else cell for cell in head], *rows]
    )


def _as_tabs(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("\t".join(line) for line in [head, *rows])


# --- changes ---------------------------------------------------------------------------------------------------------


def change(r: random.Random) -> Scene:
    """A diff that replaces a value; the new one counts."""
    old, new = draw_rivals(r, pick(r, facts.ATTRIBUTES), 2)
    key, equal = new.label.replace(" ", pick(r, "_-")), pick(r, (": ", " = ", "="))
    around = [f" {words.snake(r)}{equal}{_noise_value(r)}" for _ in range(r.randint(0, 3))]
    lines = [
        f"--- a/{words.path(r).lstrip('/')}",
        f"@@ -{r.randint(1, 90)},{r.randint(2, 9)} @@ {_entity(new)}",
        *around[:1],
        f"-{key}{equal}{old.answer}",
        f"+[[{key}]]{equal}[[{new.answer}]]",
        *around[1:],
    ]
    turns = [*_open(r), call(r, f"git diff {words.branch(r)}"), say("tool", "\n".join(lines)), *_comment(r, [new])]
    return scene(turns, [to_fact(r, new, old.value)])


def commit(r: random.Random) -> Scene:
    """A commit or a line of a change log tells a fact."""
    triple = facts.draw(r)
    clause = write_clause(r, triple)
    form = pick(r, _COMMITS).replace("{c}", clause).replace("{C}", start(clause))
    text = fill(expand(r, form), triple).replace("\\n", "\n")
    role = pick(r, ("tool", "tool", "assistant"))
    turns = [call(r, "git log -1"), say("tool", text)] if role == "tool" else [say("assistant", text)]
    return scene([*turns, *_comment(r, [triple])], [to_fact(r, triple)])


_COMMITS = split_lines(r"""
    commit <long_hash>\nDate: <stamp>\n\n    {c}
    <commit> {c}
    fix(<word>): {c}
    <word>: set {a} of {e} to {v}
    chore: {e}: {a} {v}
    <commit> {e}: {a} is now {v}\n<commit> tidy up <file>\n<commit> <word>: typo
    <commit> remove unused <plural>\n<commit> {c}\n<commit> bump <word>
    ## <version>\n- {C}\n- Minor changes in <module>
    CHANGES\n * {C}.\n * <plural> are sorted.
    Merge <branch>: {c}
    I committed it with the message "{c}".
    Commit message: {C}.
""")


def annotate(r: random.Random) -> Scene:
    """A comment in code, a constant or a docstring holds the fact."""
    triple = facts.draw(r)
    text = pick(r, _COMMENTS).replace("{c}", write_clause(r, triple)).replace("{C}", start(write_clause(r, triple)))
    text = fill(expand(r, text), triple).replace("\\n", "\n")
    if chance(r, 0.5):
        turns = [call(r), say("tool", text), *_comment(r, [triple])]
    else:
        turns = [say("assistant", f"{fillers.plan(r)}\n```\n{text}\n```")]
    return scene(turns, [to_fact(r, triple)])


_COMMENTS = split_lines(r"""
    # {C}.\ndef <function>(<word>, <word>):\n    return <word>.<word>()
    // {c}\nfunc <camel>(<word> int) error {\n\treturn nil\n}
    def <function>(<word>):\n    '''{C}.'''\n    for <word> in <plural>:\n        yield <word>
    <line>  /* {c} */\n<line+>  if (<camel> == NULL) return;
    # NOTE: {c}\nimport <word>\nimport <word>
    -- {c}\nSELECT <word>, <word> FROM <plural> WHERE <word> > <digit>;
    <plural> = [<digit>, <digit>]  # {c}
    // TODO(<word>): {e}, {a} {v}\nconst <camel> = <digit>;
    #!/bin/sh\n# {e}: {a} = {v}\nset -eu\n<tool> <flag> "$1"
    class <pascal>:\n    # {c}\n    <word> = None
    {# {c} #}\n<div class="<kebab>">{{ <word> }}</div>
    ; {e}\n; {a}: {v}\n<word> = <digit>
    if <word> is None:\n    raise <error>("<word>")  # {c}
""")


# --- logs and runs ---------------------------------------------------------------------------------------------------


def log(r: random.Random) -> Scene:
    """A log of which one line holds the fact, told to be the telling one before or after."""
    triple = facts.draw(r)
    told = pick(r, _LOG_LINES).replace("{c}", write_clause(r, triple))
    told = fill(expand(r, told), triple)
    lines = [expand(r, pick(r, _NOISE_LINES)) for _ in range(r.randint(1, 4))]
    place = r.randint(0, len(lines))
    told_in_order = [*lines[:place], told, *lines[place:]]
    times = words.stamps(r, len(told_in_order))
    stamped = [f"{time} {line}" for time, line in zip(times, told_in_order, strict=True)]
    remark = f"The line that counts is the one about {triple.entity}. {fillers.filler(r)}"
    after = [say("assistant", remark)] if chance(r, 0.6) else _comment(r, [triple])
    return scene([*_open(r), call(r), say("tool", "\n".join(stamped)), *after], [to_fact(r, triple)])


_LOG_LINES = split_lines("""
    INFO {c}
    WARN <service>: {c}
    [<word>] {e} {a}={v}
    ERROR {e} {a}: {v}
    NOTICE {a} of {e} changed to {v}
    level=info msg="{c}"
    <host> <word>[<line>]: {c}
    {e}: {a} -> {v}
    I <file>:<line>] {c}
    <service> | {e} | {a} {v}
    config reloaded, {e} {a} {v}
""")
_NOISE_LINES = split_lines("""
    INFO request <code> took <ms> ms
    DEBUG <function> called with <small>
    INFO connected to <host>:<port>
    WARN slow query on <plural>, <ms> ms
    INFO <service> ready
    DEBUG cache miss for <kebab>
    INFO <count> rows read
    level=debug msg="tick" n=<line>
    GET <route> 200 <bytes>
    POST <route> 204 <ms>ms
    INFO flushed <digit> segments
    TRACE enter <function>
    <service> heartbeat ok
    INFO worker <digit> idle
    DEBUG gc pause <ms> ms
    INFO loaded <path>
    WARN retrying (<digit>)
    [<word>] checkpoint <commit>
""")


def fail_test(r: random.Random) -> Scene:
    """A test run with a failure; which test failed, with what error, or from what cause is asked."""
    name, failure = f"test_{words.snake(r)}", words.error(r)
    path = words.path(r)
    suite = pick(r, (words.product, words.service, words.branch))(r)
    passed = r.randint(3, 900)
    ask_name = (
        f"Which test failed on {suite}?",
        f"What is the one failing test of {suite}?",
        f"In the run of {suite}, which test was red?",
        f"Name the test that breaks in {suite}.",
    )
    ask_error = (
        f"With which error does {name} fail?",
        f"What does {name} raise?",
        f"Which exception ends {name}?",
    )
    seconds = f"{r.uniform(1, 90):.2f}s"
    bodies = (
        f"{path} ....F...\nFAILED {path}::[[{name}]] - [[{failure}]]\n1 failed, {passed} passed in {seconds}",
        f"running {passed} tests\ntest [[{name}]] ... [[FAILED]]\n  panicked: [[{failure}]]\n{passed - 1} passed",
        f"not ok {r.randint(2, 90)} - [[{name}]]\n  # [[{failure}]]\nok {r.randint(91, 400)} - {words.snake(r)}",
        f"[[{name}]] [[failed]] with [[{failure}]], everything else ({passed}) is green.",
        f"PASS {words.snake(r)}\nFAIL [[{name}]]\n    raise [[{failure}]]\nTook {seconds}",
        f"{passed} run, 1 red after {seconds}: [[{name}]] ([[{failure}]])",
    )
    told = pick(
        r,
        (
            f"I ran the tests of [[{suite}]].",
            f"Here is the run on [[{suite}]]:",
            f"[[{suite}]], tests once more.",
            f"Running everything on [[{suite}]].",
        ),
    )
    turns = [
        say("assistant", told),
        say("tool", pick(r, bodies)),
        *([say("assistant", fillers.filler(r))] if chance(r, 0.5) else []),
    ]
    return scene(turns, [Fact(ask_name, name, "test"), Fact(ask_error, failure, "error")])


SCENES: tuple[Callable[[random.Random], Scene], ...] = (
    configure,
    configure,
    pick_line,
    pick_line,
    tabulate,
    tabulate,
    change,
    commit,
    annotate,
    log,
    fail_test,
)
