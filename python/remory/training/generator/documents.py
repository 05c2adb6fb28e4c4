"""Scenes around documents that the user pastes, a tool returns or the assistant quotes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from remory.training.generator.document_layouts import LAYOUTS, boiler
from remory.training.generator.talk_forms import acknowledge, idle, plan, wish
from remory.training.generator.talk_idle import IDLE
from remory.training.generator.talk_told import as_stated, facts_of, repeat
from remory.training.generator.talk_topics import (
    FIELDS,
    SOFTWARE_FIELDS,
    Claim,
    Field,
    capital,
    choose,
    draw_claim,
    draw_entity,
    draw_rivals,
)
from remory.training.generator.talk_values import VALUES, listed
from remory.training.sessions import Fact, Scene, Turn, say, scene

_SOURCES = listed(
    "manual,handbook,leaflet,sheet,page,minutes,notice,binder,site,letter,file,label,contract,catalogue,wiki,poster,"
    "readme,instructions,statutes,brochure,form,attachment,knowledge base,guideline,appendix,scan"
)


def _field(r: random.Random) -> Field:
    return r.choice(SOFTWARE_FIELDS) if r.random() < 0.3 else r.choice(FIELDS)


def _claims(r: random.Random, count: int) -> list[Claim]:
    """Claims with different attributes about one thing."""
    field = _field(r)
    entity = draw_entity(r, field)
    claims: list[Claim] = []
    for _ in range(count):
        taken = [text for claim in claims for text in (claim.value, claim.attribute.noun)]
        claims.append(draw_claim(r, field, entity=entity, avoid=taken))
    return claims


def present(r: random.Random, document: str, entity: str, claims: Sequence[Claim] = ()) -> list[Turn]:
    """Turns that bring a document in: pasted by the user, returned by a tool or quoted by the assistant."""
    source = r.choice(_SOURCES)
    way = r.randrange(6)
    if r.random() < 0.2:
        document = f"```\n{document}\n```"
    if way == 0:
        look = choose(r, f"<I look it up in|Let me open|I fetch|Reading|One moment, I check> the {source}.")
        after = [say("assistant", r.choice((acknowledge(r), plan(r), repeat(r, claims[0]) if claims else plan(r))))]
        return [say("assistant", look), say("tool", document), *(after if r.random() < 0.8 else [])]
    if way == 1:
        lead = choose(r, f"<The {source} says|From the {source}|In the {source} I find|I quote the {source}>:\n")
        return [say("user", wish(r, entity)), say("assistant", lead + document)]
    lead = choose(
        r,
        f"<Here is|This is|I paste|Below is> <the {source}|what the {source} says|a part of the {source}>:\n"
        f"|<The {source}|From the {source}|{capital(source)}>:\n|||{idle(r, 1)}\n|<FYI|See this|Look>: ",
    )
    turns = [say("user", choose(r, f"<{lead}>").replace("|", "") + document)]
    if r.random() < 0.85:
        turns.append(say("assistant", r.choice((acknowledge(r), plan(r)))))
    return turns


def excerpt(r: random.Random) -> Scene:
    """An excerpt about one thing in one of many layouts."""
    claims = _claims(r, r.choice((1, 1, 2, 2, 3)))
    return facts_of(r, present(r, r.choice(LAYOUTS)(r, claims), claims[0].entity, claims), claims)


def rows(r: random.Random) -> Scene:
    """A short list of several things and one attribute, all of them worth keeping."""
    claims = draw_rivals(r, _field(r), r.choice((2, 3)))
    noun = f"[[{claims[0].attribute.noun}]]"
    form = r.choice(
        (
            "| {e} | {v} |",
            "{e}: {v}",
            "{e} .... {v}",
            "- {e}, {v}",
            "{e}\t{v}",
            "{e} = {v}",
            "{e},{v}",
            "* {v} ({e})",
        )
    )
    lines = [form.format(e=f"[[{c.entity}]]", v=f"[[{c.value}]]") for c in claims]
    head = r.choice(
        (f"{capital(noun)}", f"name / {noun}", f"Overview: {noun}", f"# {noun}", f"List of things and their {noun}")
    )
    return facts_of(r, present(r, "\n".join((head, *lines)), claims[0].entity, claims), claims)


def choose_row(r: random.Random) -> Scene:
    """A long list of which one row is taken; only where it is taken something is marked."""
    field = _field(r)
    rivals = draw_rivals(r, field, r.randrange(4, 7))
    taken = r.choice(rivals)
    bar = r.choice((" - ", ": ", " | ", "\t", " ... ", ", "))
    listed = "\n".join(f"{claim.entity}{bar}{claim.value}" for claim in rivals)
    noun = f"[[{taken.attribute.noun}]]"
    done = r.choice(
        (
            f"Only the [[{taken.entity}]] is for us: [[{taken.value}]], the {noun}.",
            f"Of these I take the [[{taken.entity}]], so {noun} [[{taken.value}]].",
            f"Ours is the [[{taken.entity}]]. {capital(taken.clause(r))}.",
            f"Forget the other rows. {capital(taken.clause(r))}.",
            f"We need one line of it: {taken.clause(r)}.",
        )
    )
    turns = [
        say("user", f"{capital(r.choice(_SOURCES))}, {taken.attribute.noun}:\n{listed}"),
        say("assistant", choose(r, "<Which of them|What do you need from it|And which row matters|Long list>?")),
        say("user", done),
    ]
    if r.random() < 0.6:
        turns.append(say("assistant", r.choice((acknowledge(r), repeat(r, taken)))))
    return facts_of(r, turns, (taken,))


def amend(r: random.Random) -> Scene:
    """A document says one thing and somebody says what holds instead."""
    old = _claims(r, 1)[0]
    field = next(f for f in FIELDS + SOFTWARE_FIELDS if old.attribute in f.attributes)
    new = draw_claim(r, field, entity=old.entity, attribute=old.attribute, avoid=(old.value,))
    document = r.choice(LAYOUTS)(r, [old]).replace("[[", "").replace("]]", "")
    noun = f"[[{new.attribute.noun}]]"
    fixed = r.choice(
        (
            f"The text is out of date: {new.clause(r)}.",
            f"Ignore the {old.value} there. {capital(new.clause(r))}.",
            f"That was the printed version. By hand it says {noun} [[{new.value}]] for the [[{new.entity}]].",
            f"An erratum came with it: {new.clause(r)}.",
            f"In our house it differs, {new.clause(r)}.",
            f"Replace {old.value} by [[{new.value}]] ([[{new.entity}]], {noun}).",
        )
    )
    turns = [say("user", document), say("assistant", acknowledge(r)), say("user", fixed)]
    if r.random() < 0.6:
        turns.append(say("assistant", acknowledge(r)))
    return facts_of(r, turns, (new,))


def change_list(r: random.Random) -> Scene:
    """A list of changes: what was and what is now."""
    claim = _claims(r, 1)[0]
    was = VALUES[claim.attribute.value](r)
    while was == claim.value:
        was = VALUES[claim.attribute.value](r)
    noun = f"[[{claim.attribute.noun}]]"
    line = r.choice(
        (
            f"[[{claim.entity}]]: {noun} from {was} to [[{claim.value}]]",
            f"{noun} of the [[{claim.entity}]] is now [[{claim.value}]] (was {was})",
            f"-{claim.entity}: {was}\n+[[{claim.entity}]]: [[{claim.value}]]  ({noun})",
            f"changed {noun} for [[{claim.entity}]], {was} -> [[{claim.value}]]",
            f"the [[{claim.entity}]] no longer has {was} but [[{claim.value}]] as {noun}",
        )
    )
    others = [boiler(r), choose(r, "<typos fixed|new cover|order of pages changed|index added>"), idle(r, 1)]
    items = [line, *r.sample(others, r.randrange(1, 3))]
    r.shuffle(items)
    head = choose(r, "<Changes|What is new|Edition {number}|Release {ordinal}|Since {date}|Amendments>")
    document = head + "\n" + "\n".join("* " + item if not item.startswith("-") else item for item in items)
    return facts_of(r, present(r, document, claim.entity, (claim,)), (claim,))


def recipe(r: random.Random) -> Scene:
    """A recipe of which one amount is ours and differs from the print."""
    dish = VALUES["food"](r)
    names = r.sample(("flour", "sugar", "butter", "oats", "milk", "cream", "honey", "semolina", "lentils", "quark"), 4)
    amounts = [VALUES["portion"](r) for _ in names]
    ours = VALUES["portion"](r)
    while ours in amounts:
        ours = VALUES["portion"](r)
    printed = f"{capital(dish)}\n" + "\n".join(f"{amount} {name}" for amount, name in zip(amounts, names, strict=True))
    steps = choose(r, "\n<Mix|Stir|Beat> everything, <rest {cooking}|chill>, <bake|simmer> <{cooking}|until done>.")
    which = r.choice(names)
    told = r.choice(
        (
            f"In our [[{dish}]] there goes [[{ours}]] of [[{which}]] rather than what is printed.",
            f"With the [[{dish}]] I change one thing, the [[{which}]]: [[{ours}]].",
            f"[[{ours}]] [[{which}]] is right for the [[{dish}]], the rest as printed.",
            f"The [[{which}]] in the [[{dish}]] must be [[{ours}]], believe me.",
        )
    )
    asks = (
        f"How much {which} goes into the {dish}?",
        f"What amount of {which} do we use in the {dish}?",
        f"Which quantity of {which} is right for the {dish}?",
        f"The {dish}: what about the {which}, how much?",
    )
    turns = (say("user", printed + steps), say("assistant", acknowledge(r)), say("user", capital(told)))
    return scene(turns, (Fact(asks, as_stated(turns, ours), "amount"),))


def schedule(r: random.Random) -> Scene:
    """A schedule of which one or two entries concern us."""
    field = r.choice(FIELDS)
    names: list[str] = []
    while len(names) < 5:
        name = draw_entity(r, field)
        if name not in names:
            names.append(name)
    times: list[str] = []
    maker = VALUES[r.choice(("clock", "date", "weekday", "position", "room", "role"))]
    while len(times) < 5:
        time = maker(r)
        if time not in times:
            times.append(time)
    kind = "when, where or who"
    lines = [f"{time}{r.choice((' ', ': ', ' - '))}{name}" for time, name in zip(times, names, strict=True)]
    return scene(
        (
            say("user", f"Posted on the board ({kind}):\n" + "\n".join(lines)),
            say("assistant", choose(r, "<Is any of these ours|Does one of them concern us>?")),
            say("user", choose(r, "<No, none|None of them|Not one, it is last year's|No, only to show the style>.")),
        )
    )


def blurb(r: random.Random) -> Scene:
    """A document of which nothing is needed."""
    count = r.randrange(3, 7)
    lines = [r.choice((boiler(r), boiler(r), idle(r, 1))) for _ in range(count)]
    style = r.choice((" ", "\n", "\n- ", "\n\n"))
    return scene(present(r, style.join(lines), draw_entity(r, r.choice(FIELDS))))


def contents(r: random.Random) -> Scene:
    """A table of contents or an index."""
    lines = []
    page = 1
    for at in range(r.randrange(4, 8)):
        page += r.randrange(1, 30)
        field = r.choice(FIELDS)
        topic = r.choice((r.choice(field.things), r.choice(field.attributes).noun, field.name))
        lines.append(
            r.choice((f"{at + 1}. {capital(topic)} {'.' * r.randrange(3, 9)} {page}", f"{topic}, {page}, {page + 3}"))
        )
    return scene(present(r, "\n".join(lines), draw_entity(r, r.choice(FIELDS))))


def sample_document(r: random.Random) -> Scene:
    """A filled document that is only an example of the layout: nothing of it is ours."""
    claims = _claims(r, r.choice((1, 2, 3)))
    document = r.choice(LAYOUTS)(r, claims).replace("[[", "").replace("]]", "")
    asked = choose(
        r,
        "<Show me a made-up example of such a page|Invent a sample|What would such a thing look like|Give me a "
        "dummy to "
        "test the layout>.",
    )
    after = choose(
        r, "<Thanks, only the layout matters|Good, I throw it away again|Fine as a dummy|The style is right>."
    )
    return scene((say("user", asked), say("assistant", document), say("user", after)))


_TOLD = (excerpt,) * 6 + (rows, rows, choose_row, choose_row, amend, change_list, change_list, recipe)
_IDLE = (schedule, blurb, blurb, contents, sample_document, sample_document)

SCENES: tuple[Callable[[random.Random], Scene], ...] = _TOLD + _IDLE + IDLE[:8]
