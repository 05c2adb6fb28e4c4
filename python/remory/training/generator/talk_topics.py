"""Claims about things of all fields, drawn from the texts of talk_domains and talk_trades."""

from __future__ import annotations

import random
import re
from collections.abc import Collection
from dataclasses import dataclass

from remory.training.generator.document_fields import PAPERS, SOFTWARE
from remory.training.generator.talk_domains import HOME
from remory.training.generator.talk_services import SERVICES
from remory.training.generator.talk_stories import STORIES
from remory.training.generator.talk_trades import TRADES
from remory.training.generator.talk_values import VALUES
from remory.training.sessions import Fact

_CHOICE = re.compile(r"<([^<>]*)>")
_AN = re.compile(r"\b([Aa]) (\[\[[aeiou])")
_SLOT = re.compile(r"\{(\w+)\}")
_CLAUSES = ("reason", "remedy", "rule", "cause", "trouble", "fault", "effect")

GENERIC_ASKS = (
    "What is the {a} of the {e}?",
    "What {a} does the {e} have?",
    "And the {a} of the {e}?",
    "{e}: which {a} was it?",
    "Do you still know the {a} for the {e}?",
    "Which {a} did we note for the {e}?",
    "What was said on the {a} of the {e}?",
    "Please give me the {a} of the {e} again.",
    "For the {e}, what is the {a}?",
    "I forgot the {a} of the {e}. What was it?",
)
_ASK_OPENINGS = (
    "Remind me: ",
    "Quick question: ",
    "Tell me, ",
    "Sorry, once more: ",
    "One thing I forgot: ",
    "Somebody wants to know: ",
    "For the notes: ",
    "I am not sure any more, ",
    "You had this earlier: ",
    "Let me check: ",
)
GENERIC_SAYS = (
    "the {a} of the {e} is {v}",
    "the {e} has {v} as its {a}",
    "as {a} of the {e} we take {v}",
    "for the {e} the {a} will be {v}",
    "{v} is the {a} of the {e}",
    "with the {e}, the {a} turned out to be {v}",
    "the {a} we go by for the {e} is {v}",
    "what holds as {a} for the {e} is {v}",
    "on the {e}: {v} as {a}",
    "the {e} now has another {a}, namely {v}",
    "{a} for the {e}: {v}",
    "{e}, {a}: {v}",
    "the {a}, as far as the {e} goes, is {v}",
    "regarding the {a} of the {e}, it is {v}",
    "count on {v} as the {a} of the {e}",
    "write down {v} as {a} of the {e}",
    "let the {a} of the {e} be {v}",
    "we ended up with {v} for the {a} of the {e}",
    "nobody objects to {v} as {a} of the {e}",
    "I asked about the {a} of the {e} and was told {v}",
    "the {a} given for the {e} was {v}",
    "put {v} next to {a} in the line of the {e}",
    "make it {v} for the {a} of the {e}",
    "everyone reckons with {v} when it comes to the {a} of the {e}",
    "the {e} will do with {v} as far as the {a} is concerned",
    "the {a} the {e} ended up with is {v}",
    "{v}, that is the {a} we use for the {e}",
    "we are going ahead with the {e} and {v} for its {a}",
    "there is now a {a} for the {e}, to wit {v}",
    "my note on the {e} has {v} under {a}",
    "do it with {v} as {a} for the {e}",
    "the only {a} that works for the {e} is {v}",
    "the {e} came with {v} for {a}",
    "we measured and asked, and the {a} of the {e} is {v} after all",
    "if anyone asks for the {a} of the {e}, say {v}",
    "in the end {v} won as {a} for the {e}",
    "{v} it shall be, the {a} for the {e}",
    "what I need from you is {v} as {a} in everything on the {e}",
    "stick to {v} for the {a} of the {e}",
    "on the sticker of the {e} I read {v} for {a}",
    "the {a} for the {e} has been fixed at or as {v}",
    "the {e} (its {a} being {v}) is done",
    "people know the {e} by its {a}, which is {v}",
    "[x] {e}: {a} {v}",
    "{a}={v} for the {e}",
    "{e} -> {a} -> {v}",
    "{e} ({a} {v})",
    "ad {e}: {v} ({a})",
    "the {e} is ready apart from one thing, the {a}, and that is {v}",
    "they wanted another {a} for the {e}, I insisted on {v}",
    "we got {v} out of them as {a} for the {e}",
    "it took a while, but for the {e} we have {v} as {a}",
    "out of several, {v} was picked as {a} of the {e}",
    "have {v} entered as {a} for the {e}",
    "the {a}? {v}, in the case of the {e}",
    "your question on the {a} of the {e}: {v}",
)
COLON_SAYS = (
    "{a} of the {e}: {v}",
    "{e}, {a}: {v}",
    "as for the {a} of the {e}: {v}",
    "the {a} noted for the {e} reads: {v}",
    "about the {e}, {a}: {v}",
    "the {a} of the {e}, in short: {v}",
    'the {a} of the {e} was put as "{v}"',
    "I was given this {a} for the {e}: {v}",
    "{e} / {a} / {v}",
    "{v} - so much for the {a} of the {e}",
    "{e}: {v} ({a})",
    "this is the {a} for the {e}: {v}",
    "under {a} the file on the {e} has: {v}",
    "{v}: that is what I heard as {a} for the {e}",
    "the {e} has one {a}: {v}",
    "do not forget the {a} of the {e}: {v}",
    "{a} ({e}): {v}",
    "we finally know the {a} of the {e}: {v}",
)
_INTRODUCTIONS = (
    "There is news about the {e}.",
    "I had a look at the {e}.",
    "You asked about the {e}.",
    "Now the {e}.",
    "Next on my list is the {e}.",
    "Remember the {e}?",
    "We finally talked about the {e}.",
    "The {e} is settled.",
    "We still had the {e} to sort out.",
    "My headache of the week was the {e}.",
    "Something on the {e}.",
    "So, the {e}.",
    "I spent the morning with the {e}.",
    "Somebody brought up the {e}.",
    "You know the {e}.",
    "The {e} keeps us busy.",
)


_DETOURS = (
    "<the one|which is the one> <by the window|from last year|everybody likes|we keep moving|nobody wanted>",
    "<as you may remember|as far as I know|as it seems|by the way|of all things|at long last>",
    "<after all the trouble|after much talk|to keep it short|to my relief|as was to be expected>",
    "which <{role}|{group}> <loves|hates|pays for|found|always asks about>",
    "<my favourite|our eternal problem|a long story|a bargain at the time|a gift from {town}>",
    "<and only that one|not the other one|you know which|the real one>",
    "<if I read it right|unless I am mistaken|I double checked|so says {role}>",
)


@dataclass(frozen=True)
class Attribute:
    """What may be told of a thing: its noun, the name of its kind of value, ways to say it and to ask for it."""

    noun: str
    value: str
    kind: str
    says: tuple[str, ...]
    asks: tuple[str, ...]


@dataclass(frozen=True)
class Field:
    """A field of life: things, what tells one from the other, and what is told of them."""

    name: str
    things: tuple[str, ...]
    marks: tuple[str, ...]
    attributes: tuple[Attribute, ...]


@dataclass(frozen=True)
class Claim:
    """A thing, an attribute and a value. `says` are clauses with marks in them that begin in lower case."""

    entity: str
    attribute: Attribute
    value: str

    @property
    def kind(self) -> str:
        """One word for the kind of the value."""
        return self.attribute.kind

    @property
    def short(self) -> bool:
        """Whether the value can follow "is"; clauses cannot."""
        return self.kind not in _CLAUSES

    def fill(self, template: str) -> str:
        """The template with {e}, {a} and {v} in marks; see talk_domains for the notation."""
        filled = template.replace("{e}", f"[[{self.entity}]]").replace("{v}", f"[[{self.value}]]")
        return _AN.sub(r"\1n \2", filled.replace("{a}", f"[[{self.attribute.noun}]]"))

    def clause(self, r: random.Random) -> str:
        """A statement with marks, begun in lower case and without a full stop."""
        if r.random() < 0.68:
            said = r.choice(self.attribute.says)
        else:
            said = r.choice(GENERIC_SAYS if self.short else COLON_SAYS)
        roll = r.random()
        if roll < 0.12:
            said = said.replace("the {e}", r.choice(("our", "this", "that", "our", "said")) + " {e}")
        filled = self.fill(said)
        return _detour(r, filled, f"[[{self.entity}]]") if r.random() < 0.14 else filled

    def introduced(self, r: random.Random) -> str:
        """Two sentences with marks: one names the thing, the other tells of "it"."""
        told = self.fill(r.choice(self.attribute.says).replace("the {e}", "it"))
        return self.fill(r.choice(_INTRODUCTIONS)) + " " + capital(told) + "."

    def fact(self, r: random.Random) -> Fact:
        """The fact with three to six questions; the first of them is the same for the same thing and attribute."""
        first, *others = (ask.replace("{e}", self.entity) for ask in self.attribute.asks)
        questions = [first, *others]
        for ask in r.sample(GENERIC_ASKS, r.randrange(1, 3)):
            asked = capital(ask.replace("{e}", self.entity).replace("{a}", self.attribute.noun))
            questions += [asked] * (asked not in questions)
        if r.random() < 0.6:
            asked = r.choice(questions)
            asked = asked if asked.startswith(("I ", "And ")) else asked[0].lower() + asked[1:]
            questions.append(r.choice(_ASK_OPENINGS) + asked)
        return Fact(tuple(questions), self.value, self.kind)

    def askable(self) -> bool:
        """Whether no question can contain the answer."""
        words = " ".join(
            (f"the {self.entity}", self.attribute.noun, *self.attribute.asks, *_ASK_OPENINGS, *GENERIC_ASKS)
        )
        return self.value.lower() not in words.lower()


def parse_fields(text: str) -> tuple[Field, ...]:
    """The fields that stand in a text in the notation of talk_domains. Raises ValueError for another notation."""
    fields = []
    for block in re.split("\n+=", text.strip()):
        lines = block.lstrip("= ").strip().splitlines()
        things = tuple(thing for line in lines if line.startswith("e ") for thing in line[2:].split(", "))
        marks = tuple(mark for line in lines if line.startswith("m ") for mark in line[2:].split(", "))
        attributes = []
        for part in block.split("\na ")[1:]:
            head, *rest = part.splitlines()
            noun, value, kind = head.split(" | ")
            says = tuple(line[2:] for line in rest if line.startswith("s "))
            asks = tuple(line[2:] for line in rest if line.startswith("q "))
            attributes.append(Attribute(noun, value, kind, says, asks))
        fields.append(Field(lines[0].strip(), things, marks, tuple(attributes)))
    return tuple(fields)


FIELDS: tuple[Field, ...] = parse_fields(HOME + TRADES + SERVICES + STORIES + PAPERS)
SOFTWARE_FIELDS: tuple[Field, ...] = parse_fields(SOFTWARE)


def capital(text: str) -> str:
    """The text with its first letter, inside a mark or not, in upper case."""
    at = 2 if text.startswith("[[") else 0
    return text[:at] + text[at : at + 1].upper() + text[at + 1 :]


def choose(r: random.Random, template: str) -> str:
    """A text from a template: one of <a|b|c> is chosen, inner ones first, and {name} is a value of that name.

    {thing} is a thing of any field, {topic} the noun of an attribute. Raises KeyError when a {name} is not in VALUES.
    """
    while True:
        chosen = _CHOICE.sub(lambda found: r.choice(found[1].split("|")), template)
        if chosen == template:
            break
        template = chosen
    return _SLOT.sub(lambda found: _value(r, found[1]), template)


def _value(r: random.Random, name: str) -> str:
    if name == "thing":
        return draw_entity(r, r.choice(FIELDS))
    if name == "topic":
        return r.choice(r.choice(FIELDS).attributes).noun
    return VALUES[name](r)


def _detour(r: random.Random, clause: str, entity: str) -> str:
    """The clause with an aside behind the thing, where a blank or the end follows it."""
    before, after = clause.split(entity, 1)
    if after and not after.startswith(" ") or after.startswith((" =", " ->", " /", " (", " has ", " will")):
        return clause
    aside = choose(r, r.choice(_DETOURS))
    return f"{before}{entity}, {aside}{',' if after else ''}{after}"


def draw_entity(r: random.Random, field: Field) -> str:
    """A thing of the field with what tells it from others, such as "cellar freezer"."""
    thing = r.choice(field.things)
    if field in SOFTWARE_FIELDS:
        return f"{VALUES['identifier'](r)} {thing}"
    roll = r.random()
    if roll < 0.72:
        return f"{r.choice(field.marks)} {thing}"
    if roll < 0.80:
        return f"{VALUES['pseudo'](r)} {thing}"
    if roll < 0.86:
        return f"{VALUES['role'](r)[4:]}'s {thing}"
    if roll < 0.91:
        return f"{thing} {r.randrange(2, 30)}"
    if roll < 0.93:
        return f"{thing} from {VALUES['town'](r)}"
    if roll < 0.96:
        return f"{thing} of {VALUES['group'](r)}"
    return thing


def draw_claim(
    r: random.Random,
    field: Field | None = None,
    entity: str | None = None,
    attribute: Attribute | None = None,
    avoid: Collection[str] = (),
) -> Claim:
    """A claim; what is given is kept. `avoid` are values, things and attribute nouns that are taken."""
    field = field or r.choice(FIELDS)
    while True:
        chosen = attribute or r.choice(field.attributes)
        claim = Claim(entity or draw_entity(r, field), chosen, VALUES[chosen.value](r))
        taken = claim.value in avoid or (not entity and claim.entity in avoid)
        if claim.askable() and not taken and (attribute or chosen.noun not in avoid):
            return claim


def draw_rivals(r: random.Random, field: Field, count: int) -> list[Claim]:
    """Claims of one attribute about several things, half the time things of one noun; values differ."""
    attribute = r.choice(field.attributes)
    thing = r.choice(field.things)
    if field in SOFTWARE_FIELDS:
        names = [draw_entity(r, field) for _ in range(count)]
    elif r.random() < 0.5:
        names = [f"{mark} {thing}" for mark in r.sample(field.marks, count)]
    else:
        names = [f"{r.choice(field.marks)} {other}" for other in r.sample(field.things, count)]
    claims: list[Claim] = []
    for name in names:
        claims.append(draw_claim(r, field, name, attribute, [claim.value for claim in claims]))
    return claims
