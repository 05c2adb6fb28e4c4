"""Triples of entity, attribute and value, and the many ways to say them and to ask for them.

In templates `{e}` stands for the entity, `{a}` for the label of the attribute and `{v}` for the value; all three are
marked when they are filled in, an article before them is not.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from remory.training.generator.words import Maker, capital, chance, pick
from remory.training.sessions import Fact

_INNER_START = re.compile(r"[.!?] the (?=\[\[)")
_ARTICLES = ("the ", "a ", "an ", "our ", "all ")


@dataclass(frozen=True)
class Attribute:
    """What may be told of some entities: templates to state it, templates to ask for it, and a maker of its values.

    `clauses` are declarative and may follow "that"; `commands` stand alone.
    """

    kind: str
    entities: tuple[Maker, ...]
    labels: tuple[str, ...]
    value: Maker
    clauses: tuple[str, ...]
    questions: tuple[str, ...]
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Triple:
    """One attribute of one entity with its value, as they stand in text (with their articles)."""

    attribute: Attribute
    entity: str
    value: str
    label: str

    @property
    def answer(self) -> str:
        """The value without its article."""
        return bare(self.value)


GENERIC_CLAUSES = (
    "the {a} of {e} is {v}",
    "the {a} for {e} is {v}",
    "{v} is the {a} of {e}",
    "{v} is what {e} has as its {a}",
    "{e} has {v} as {a}",
    "we use {v} as the {a} of {e}",
    "for {e} the {a} is {v}",
    "as for the {a} of {e}, it is {v}",
    "the {a} that goes with {e} is {v}",
    "the {a} we settled on for {e} is {v}",
    "the {a} was set to {v} for {e}",
    "{e} now has {v} for its {a}",
    "the {a} of {e} stays {v}",
    "the {a} noted for {e} is {v}",
    "{e} was given {v} as {a}",
    "with {e} the {a} comes to {v}",
    "{v} was chosen as {a} for {e}",
    "nothing but {v} will do as the {a} of {e}",
    "the {a} on record for {e} is {v}",
    "{e} comes with {v} as {a}",
    "{v} serves as the {a} of {e}",
    "on {e} the {a} reads {v}",
    "the {a} we have for {e} is {v}",
    "the right {a} for {e} is {v}",
    "{e} goes with {v} when it comes to the {a}",
    "there is a new {a} for {e}, {v}",
    "the {a} of {e} changed to {v}",
    "the {a} belonging to {e} is {v}",
    "under {a}, {e} has {v}",
    "what we call the {a} of {e} amounts to {v}",
    "{e} will have {v} as its {a}",
    "the {a} of {e} should be {v}",
    "the {a} of {e} must be {v}",
    "the {a} of {e} equals {v}",
)

GENERIC_COMMANDS = (
    "Anyone who asks for the {a} of {e} gets the same reply: {v}.",
    "One number, one name, whatever you call it - the {a} of {e}: {v}.",
    "{e}? {a} {v}.",
    "Could you keep {v} as the {a} of {e}?",
    "Please go by {v}, the {a} of {e}.",
    "Do not forget the {a} of {e}, {v}.",
    "Let the {a} of {e} be {v}.",
    "Re {e}: {a} {v}, as discussed.",
    "Note: {e} | {a} | {v}",
    "{v}, which is the {a} of {e}, goes into the header.",
    "If you need the {a} of {e}, take {v}.",
    "* {e}: {v} ({a})",
    "ok: {a} {v} for {e}",
    "Fix the {a} of {e} at {v}, please.",
    "I would like {v} for the {a} of {e}.",
    "Set the {a} of {e} to {v}.",
    "Use {v} as the {a} of {e}.",
    "Write down {v} as the {a} for {e}.",
    "Put {v} in as the {a} of {e}, please.",
    "Change nothing about {e} except the {a}: {v}.",
    "{e}: {a} {v}.",
    "{e}, {a}: {v}.",
    "{a} of {e}: {v}.",
    "{a} for {e} = {v}",
    "{e} -> {a} -> {v}",
    "{e} ({a}: {v})",
    "{v} ({a} of {e})",
    "Treat {v} as the {a} whenever {e} comes up.",
    "Make {v} the {a} of {e} and leave the rest.",
    "What {e} needs as {a}: {v}.",
    "Remember for {e}: {a} {v}.",
)

GENERIC_QUESTIONS = (
    "Can you give me the {a} of {e}?",
    "What was said about the {a} of {e}?",
    "How did we fix the {a} of {e}?",
    "Look up the {a} of {e}, please.",
    "What does {e} have as its {a}?",
    "Which {a} goes with {e}?",
    "I forgot the {a} of {e}. Help me out?",
    "What is the {a} of {e}?",
    "What is the {a} for {e}?",
    "Which {a} does {e} have?",
    "Tell me the {a} of {e}.",
    "What did we settle on as the {a} for {e}?",
    "Do you remember the {a} of {e}?",
    "{e}: what was the {a}?",
    "What {a} was given for {e}?",
    "Remind me of the {a} of {e}.",
    "When it comes to {e}, what is the {a}?",
    "I need the {a} of {e}. What is it?",
    "What should I enter as {a} for {e}?",
    "Somebody asks for the {a} of {e}; what do I say?",
)

OPENINGS = (
    "{C}.",
    "{C}.",
    "{C}.",
    "{C}!",
    "Please note that {c}.",
    "Let us agree that {c}.",
    "For the record, {c}.",
    "By the way, {c}.",
    "One more thing: {c}.",
    "Decided: {c}.",
    "We decided that {c}.",
    "It turns out that {c}.",
    "I checked, and {c}.",
    "As of today {c}.",
    "From now on {c}.",
    "Keep in mind that {c}.",
    "Careful, {c}.",
    "Small correction to what the wiki says: {c}.",
    "Before I forget: {c}.",
    "Just so that nobody guesses, {c}.",
    "According to {owner}, {c}.",
    "{Owner} confirmed that {c}.",
    "{Owner} wrote back that {c}.",
    'Quote from {owner}: "{C}."',
    '"{C}", says {owner}.',
    "{Owner} insists that {c}.",
    "Word from {owner} is that {c}.",
    "I asked {owner}; {c}.",
    "Yes, {c}.",
    "No, {c}.",
    "Right, so {c}.",
    "OK so {c}",
    "fyi {c}",
    "note to self - {c}",
    "Going by the last change, {c}.",
    "After some back and forth {c}.",
    "Long story short, {c}.",
    "The upshot: {c}.",
    "What we know for sure is that {c}.",
    "Assume for all of this that {c}.",
    "Since last week {c}.",
    "Unless somebody objects, {c}.",
    "Do not be misled by the old notes: {c}.",
    "I had it wrong earlier; {c}.",
    "The answer to the open point is that {c}.",
    "Also, {c}.",
    "On another matter, {c}.",
    "In short, {c}.",
    "My reading is that {c}, and the tests agree.",
    "It says here that {c}.",
    "The page in the handbook states that {c}.",
    "If memory serves, and I did look it up, {c}.",
    "While you are at it: {c}.",
    "That leaves one constraint, namely that {c}.",
    "There is a rule that {c}.",
    "The minutes say that {c}.",
    "Everybody on the call agreed that {c}.",
    "The plan assumes that {c}.",
    "Whatever else changes, {c}.",
    "Mind you, {c}.",
    "I can confirm that {c}.",
    "It has been settled: {c}.",
    "This is important: {c}.",
    "(In passing: {c}.)",
    "Found it. {C}.",
    "Looked it up: {c}.",
    "Good news, {c}.",
    "Slightly annoying, but {c}.",
    "For anyone who reads this later, {c}.",
    "Answering your question from before: {c}.",
    "The reason I ask: {c}.",
    "You will need this: {c}.",
    "Here is what matters: {c}.",
)

CLOSINGS = (
    " Keep it in mind.",
    " That is not up for debate.",
    " I will hold you to it.",
    " Nothing else changes.",
    " The rest can wait.",
    " Please stick to that.",
    " It took a while to find out.",
    " We can revisit it later.",
    " Do not ask me why.",
    " That should be all you need.",
    " The old notes are wrong there.",
    " Everything else is as before.",
    " I would not touch it.",
    " That one has bitten us before.",
)


def split_lines(text: str) -> tuple[str, ...]:
    """The lines of a text that are not empty, without the space around them; a backslash at an end joins two lines."""
    joined = re.sub(r"\\\n\s*", "", text)
    return tuple(line.strip() for line in joined.splitlines() if line.strip())


def bare(phrase: str) -> str:
    """A phrase without the article before it."""
    for article in _ARTICLES:
        if phrase.lower().startswith(article):
            return phrase[len(article) :]
    return phrase


def mark(phrase: str) -> str:
    """The phrase in double brackets, an article left outside."""
    core = bare(phrase)
    return f"{phrase[: len(phrase) - len(core)]}[[{core}]]"


def fill(template: str, triple: Triple) -> str:
    """A template with entity, label and value put in and marked. After "the", a second article is dropped."""
    entity, value = mark(triple.entity), mark(triple.value)
    return template.replace("{e}", entity).replace("{v}", value).replace("{a}", f"[[{triple.label}]]")


def start(text: str) -> str:
    """The text as the start of a sentence: names and values in marks keep their case."""
    text = _INNER_START.sub(lambda found: found[0].replace("the", "The"), text)
    return text if text.startswith("[[") else capital(text)


def draw_triple(r: random.Random, attribute: Attribute) -> Triple:
    """A triple of an attribute whose value is no part of its entity or labels. RuntimeError when 100 draws clash."""
    for _ in range(100):
        entity, value = pick(r, attribute.entities)(r), attribute.value(r)
        if _is_clear(attribute, entity, value):
            return Triple(attribute, entity, value, pick(r, attribute.labels))
    raise RuntimeError(f"values and entities of {attribute.labels[0]!r} clash")


def draw_rivals(r: random.Random, attribute: Attribute, number: int, same_maker: bool = True) -> list[Triple]:
    """Triples of one attribute under one label, of different entities and with different values."""
    makers = (pick(r, attribute.entities),) if same_maker else attribute.entities
    label = pick(r, attribute.labels)
    found: list[Triple] = []
    for _ in range(400):
        if len(found) == number:
            return found
        triple = Triple(attribute, pick(r, makers)(r), attribute.value(r), label)
        if all(_is_clear(attribute, *pair) for pair in _crossed(triple, found)) and _are_apart(triple, found):
            found.append(triple)
    raise RuntimeError(f"{attribute.labels[0]!r} has no {number} different entities and values")


def _crossed(triple: Triple, found: Sequence[Triple]) -> list[tuple[str, str]]:
    everybody = [*found, triple]
    return [(one.entity, other.value) for one in everybody for other in everybody]


def _are_apart(triple: Triple, found: Sequence[Triple]) -> bool:
    return not any(
        triple.entity in other.entity
        or other.entity in triple.entity
        or triple.answer in other.answer
        or other.answer in triple.answer
        for other in found
    )


def _is_clear(attribute: Attribute, entity: str, value: str) -> bool:
    answer = bare(value).lower()
    texts = (entity, *attribute.labels, *attribute.questions)
    return not any(answer in text.lower() for text in texts) and bare(entity).lower() not in answer


def write_clause(r: random.Random, triple: Triple) -> str:
    """A declarative clause, marked, without its final stop."""
    generic = chance(r, 0.4) or not triple.attribute.clauses
    return fill(pick(r, GENERIC_CLAUSES if generic else triple.attribute.clauses), triple)


def write_command(r: random.Random, triple: Triple) -> str:
    """An imperative or a terse note, marked, with its final stop."""
    generic = chance(r, 0.6) or not triple.attribute.commands
    return start(fill(pick(r, GENERIC_COMMANDS if generic else triple.attribute.commands), triple))


def frame(r: random.Random, clause: str, owner: str) -> str:
    """A sentence around a clause: an opening out of many, at times with a closing after it."""
    opening = pick(r, OPENINGS)
    text = opening.replace("{C}", start(clause)).replace("{c}", clause)
    text = text.replace("{Owner}", capital(owner)).replace("{owner}", owner)
    return text + (pick(r, CLOSINGS) if text[-1] in ".!)" and chance(r, 0.12) else "")


def state(r: random.Random, triple: Triple, owner: str) -> str:
    """One marked sentence that tells the triple; `owner` is a team or role that may be quoted."""
    if chance(r, 0.22):
        return write_command(r, triple)
    return frame(r, write_clause(r, triple), owner)


def ask(r: random.Random, triple: Triple, former: str = "") -> tuple[str, ...]:
    """Three to six ways to ask for the value of a triple; for one that was changed, `former` is the old value."""
    attribute = triple.attribute
    specific = r.sample(attribute.questions, min(len(attribute.questions), r.randint(2, 4)))
    templates = [*specific, *r.sample(GENERIC_QUESTIONS, r.randint(1, 2))]
    spare = r.sample(GENERIC_QUESTIONS, 6)
    questions: dict[str, None] = {}
    while templates or len(questions) < 3:
        question = (templates or spare).pop(0)
        question = question.replace("{e}", triple.entity).replace("{a}", pick(r, attribute.labels))
        if former:
            question = _ask_for_newest(r, question)
        questions[_start_question(question, triple.entity)] = None
    return tuple(questions)


def _start_question(question: str, entity: str) -> str:
    is_name = question.startswith(entity) and bare(entity) == entity
    return question if is_name else capital(question)


def _ask_for_newest(r: random.Random, question: str) -> str:
    if not question.endswith("?") or chance(r, 0.4):
        return question
    return question[:-1] + pick(r, (" now?", " by now?", " at present?", " after the change?", " in the end?"))


def to_fact(r: random.Random, triple: Triple, former: str = "") -> Fact:
    """The fact of a triple: its questions, its answer and its kind."""
    return Fact(ask(r, triple, former), triple.answer, triple.attribute.kind)
