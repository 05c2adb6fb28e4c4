"""Layouts of documents: claims as key and value, rows, clauses, markup and prose."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from remory.training.generator.talk_forms import idle
from remory.training.generator.talk_topics import Claim, capital
from remory.training.generator.talk_values import VALUES, listed

# Each layout takes claims about one thing and gives a text with marks.
Layout = Callable[[random.Random, Sequence[Claim]], str]


def _pairs(claims: Sequence[Claim]) -> list[tuple[str, str]]:
    return [(f"[[{claim.attribute.noun}]]", f"[[{claim.value}]]") for claim in claims]


def _snake(text: str) -> str:
    return text.lower().replace("'s ", "s_").replace("'", "").replace(" ", "_").replace("-", "_")


def _padding(r: random.Random, count: int) -> list[tuple[str, str]]:
    # Lines that every document of the kind has and nobody asks for.
    pairs = [
        ("page", f"{r.randrange(1, 90)} of {r.randrange(90, 120)}"),
        ("revision", f"{r.choice('abcdef')}{r.randrange(1, 20)}"),
        ("printed", VALUES["date"](r)),
        ("layout", r.choice(("landscape", "two columns", "plain", "draft"))),
        ("id", VALUES["code"](r)),
        ("checked", r.choice(("yes", "no", "pending"))),
        ("lang", r.choice(("en", "en-gb", "simple"))),
        ("copies", str(r.randrange(1, 9))),
    ]
    return r.sample(pairs, count)


def yaml(r: random.Random, claims: Sequence[Claim]) -> str:
    """Nested keys and values."""
    lines = [f"[[{_snake(claims[0].entity)}]]:"]
    rows = [f"  [[{_snake(c.attribute.noun)}]]: {r.choice(('', '', chr(34)))}[[{c.value}]]" for c in claims]
    rows = [row + ('"' if ': "' in row else "") for row in rows]
    rows += [f"  {key}: {value}" for key, value in _padding(r, r.randrange(0, 3))]
    r.shuffle(rows)
    return "\n".join(lines + rows)


def json(r: random.Random, claims: Sequence[Claim]) -> str:
    """An object with strings."""
    pairs = [f'"[[{_snake(c.attribute.noun)}]]": "[[{c.value}]]"' for c in claims]
    pairs += [f'"{key}": "{value}"' for key, value in _padding(r, r.randrange(0, 3))]
    r.shuffle(pairs)
    head = f'"{r.choice(("name", "title", "item", "of"))}": "[[{claims[0].entity}]]"'
    if r.random() < 0.5:
        return "{" + ", ".join((head, *pairs)) + "}"
    return "{\n  " + ",\n  ".join((head, *pairs)) + "\n}"


def section(r: random.Random, claims: Sequence[Claim]) -> str:
    """A section of an ini or toml file."""
    sign = r.choice(("=", " = ", ": "))
    rows = [f"[[{_snake(c.attribute.noun)}]]{sign}[[{c.value}]]" for c in claims]
    rows += [f"{key}{sign}{value}" for key, value in _padding(r, r.randrange(0, 3))]
    head = f"# [[{claims[0].entity}]]" if r.random() < 0.5 else f"; --- [[{claims[0].entity}]] ---"
    return "\n".join((head, *rows))


def markup(r: random.Random, claims: Sequence[Claim]) -> str:
    """A fragment of HTML or XML."""
    tag = r.choice(("dl", "ul", "table", "entry"))
    entity = claims[0].entity
    rows = {
        "dl": [f"<dt>{a}</dt><dd>{v}</dd>" for a, v in _pairs(claims)],
        "ul": [f"<li><b>{a}</b> {v}</li>" for a, v in _pairs(claims)],
        "table": [f"<tr><td>{a}</td><td>{v}</td></tr>" for a, v in _pairs(claims)],
        "entry": [f'  <value of="{a}">{v}</value>' for a, v in _pairs(claims)],
    }[tag]
    open_tag = f'<{tag} title="[[{entity}]]">' if r.random() < 0.5 else f"<h3>[[{entity}]]</h3>\n<{tag}>"
    return "\n".join((open_tag, *rows, f"</{tag}>"))


def grid(r: random.Random, claims: Sequence[Claim]) -> str:
    """A table with the things in lines and the attribute as a heading, or a plain card."""
    entity = claims[0].entity
    rows = [*_pairs(claims), *_padding(r, r.randrange(0, 3))]
    bar = r.choice(("| {} | {} |", "{}\t{}", "{} ........ {}", "{:<12} {}", "* {}: {}", "- {} - {}", "{}; {}"))
    head = r.choice(("[[{}]]", "## [[{}]]", "** [[{}]] **", "=== [[{}]] ===", "Card: [[{}]]", "[[{}]]\n--------"))
    return "\n".join((head.format(entity), *(bar.format(a, v) for a, v in rows)))


def prose(r: random.Random, claims: Sequence[Claim]) -> str:
    """A paragraph in the voice of a manual or a handbook, with a heading or a number."""
    number = f"{r.randrange(1, 14)}.{r.randrange(1, 9)}"
    noun = r.choice(claims).attribute.noun
    head = r.choice(
        ("", f"{number} ", f"## {capital(noun)}\n\n", f"Section {number}: ", f"({number}) ", f"{number} Notes\n")
    )
    body = []
    for claim in claims:
        body.append(capital(claim.clause(r)) + ".")
        if r.random() < 0.45:
            body.append(boiler(r))
    if r.random() < 0.4:
        body.insert(0, boiler(r))
    return head + " ".join(body)


def clauses(r: random.Random, claims: Sequence[Claim]) -> str:
    """Numbered clauses, with others among them."""
    texts = [capital(claim.clause(r)) + "." for claim in claims] + [boiler(r) for _ in range(r.randrange(1, 3))]
    r.shuffle(texts)
    start = r.randrange(1, 20)
    form = r.choice(("{}. {}", "({}) {}", "Art. {} {}", "No. {}: {}", "{}) {}", "par. {} - {}"))
    return "\n".join(form.format(start + at, text) for at, text in enumerate(texts))


def faq(r: random.Random, claims: Sequence[Claim]) -> str:
    """Questions and answers as a site has them."""
    parts = []
    for claim in claims:
        noun = f"[[{claim.attribute.noun}]]"
        asked = r.choice(
            (
                f"What about the {noun} of the [[{claim.entity}]]?",
                f"I cannot find the {noun} for the [[{claim.entity}]].",
                f"[[{claim.entity}]]: {noun}?",
                f"Where do I read up the {noun} of the [[{claim.entity}]]?",
            )
        )
        reply = r.choice(
            (f"[[{claim.value}]]", f"It is this: [[{claim.value}]]", f"[[{claim.value}]], see also the leaflet")
        )
        form = r.choice(("Q: {}\nA: {}.", "**{}**\n{}.", "> {}\n{}.", "{}\n  - {}."))
        parts.append(form.format(capital(asked), capital(reply)))
    return "\n\n".join(parts)


def code_comment(r: random.Random, claims: Sequence[Claim]) -> str:
    """A comment in a source or a script."""
    mark = r.choice(("# ", "// ", "-- ", "; ", " * ", "% "))
    lines = [capital(claim.clause(r)) + "." for claim in claims]
    lines.insert(
        r.randrange(len(lines) + 1), r.choice(("TODO: tidy up", "see below", "left as it was", "do not edit by hand"))
    )
    return "\n".join(mark + line for line in lines)


def notice(r: random.Random, claims: Sequence[Claim]) -> str:
    """A notice or a circular."""
    body = " ".join(capital(claim.clause(r)) + "." for claim in claims)
    head = r.choice(
        ("NOTICE", "To all", "Attention please", "Dear members", "Information sheet", "Reminder", "House rules")
    )
    return f"{head}\n\n{boiler(r)} {body} {boiler(r)}\n\n{VALUES['role'](r)[4:]}, {VALUES['date'](r)}"


def minutes(r: random.Random, claims: Sequence[Claim]) -> str:
    """Minutes of a meeting with items, some of which decide nothing."""
    items = []
    for claim in claims:
        said = claim.clause(r)
        form = r.choice(
            (
                "Decided: {}.",
                "{}. Carried.",
                "Agreed without vote that {}.",
                "Result: {}.",
                "Action: {}.",
                "It is noted that {}.",
            )
        )
        items.append(f"[[{capital(claim.entity)}]] - " * (r.random() < 0.2) + capital(form.format(said)))
    idle_items = ("Last minutes read, no remarks.", "Any other business: none.", "Report heard.", idle(r, 1), boiler(r))
    items += r.sample(idle_items, r.randrange(1, 4))
    r.shuffle(items)
    head = r.choice(("Minutes, {d}", "Meeting of {g}, {d}", "Protocol {d}\nPresent: {n}", "Notes from the call, {d}"))
    head = head.format(d=VALUES["date"](r), g=VALUES["group"](r), n=VALUES["count"](r))
    mark = r.choice(("- ", "* ", "{}. ", "TOP {}: ", "item {}: "))
    return head + "\n" + "\n".join(mark.format(at + 1) + item for at, item in enumerate(items))


_SUBJECTS = listed(
    "pictures,drawings,colours,symbols,page numbers,examples,translations,older copies,links,footnotes,abbreviations,"
    "margins,headings,annexes,stickers,terms in brackets,screenshots,handwritten notes,cross references,logos"
)
_BOILER = (
    "{s} may differ from the product.",
    "{s} are for illustration only.",
    "For {s}, see the last pages.",
    "{s} of this text are free to copy.",
    "Read the whole text before you begin; {s} help with it.",
    "Keep this sheet, and mind the {s}.",
    "{s} have been checked with care, yet errors can occur.",
    "Questions about {s} are welcome.",
    "This part replaces nothing and adds only {s}.",
    "Where nothing else is said, common sense applies to {s}.",
    "The {s} were renewed with the last edition.",
    "The editors thank everybody who sent {s}.",
    "{s} are not binding.",
    "Further {s} will follow in due course.",
)


def boiler(r: random.Random) -> str:
    """A sentence such as every document has and nobody needs."""
    text = r.choice(_BOILER).format(s=r.choice(_SUBJECTS))
    return capital(text)


LAYOUTS: tuple[Layout, ...] = (
    yaml,
    json,
    section,
    markup,
    grid,
    grid,
    prose,
    prose,
    prose,
    clauses,
    faq,
    code_comment,
    notice,
    minutes,
    minutes,
)
