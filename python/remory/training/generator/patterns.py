"""Facts with sentences of their own: what is told, as whole marked sentences, and how it is asked for.

In statements `{x}`, `{y}` and `{z}` stand for drawn words, which are marked where the brackets are written around
them; `<slots>` are filled with words of no consequence.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from remory.training.generator import fillers, words
from remory.training.generator.calls import call
from remory.training.generator.grammar import expand
from remory.training.generator.lexicon import split_words
from remory.training.generator.statements import bare, split_lines, start
from remory.training.generator.words import Maker, capital, chance, pick
from remory.training.sessions import Fact, Scene, say, scene


@dataclass(frozen=True)
class Pattern:
    """`answers` names, for each drawn word that is asked for, its kind and the questions."""

    makers: dict[str, Maker]
    statements: tuple[str, ...]
    answers: dict[str, tuple[str, tuple[str, ...]]]
    roles: tuple[str, ...]


def pattern(makers: dict[str, Maker], statements: str, roles: str = "user assistant", **answers: str) -> Pattern:
    """A pattern from texts of one template a line; the first line of an answer is its kind."""
    asked = {name: (split_lines(text)[0], split_lines(text)[1:]) for name, text in answers.items()}
    return Pattern(makers, split_lines(statements), asked, tuple(roles.split()))


def tell_pattern(r: random.Random, chosen: Pattern) -> Scene:
    """A scene of one pattern. RuntimeError when 200 draws give no words that keep apart."""
    for _ in range(200):
        drawn = {name: maker(r) for name, maker in chosen.makers.items()}
        facts = [_ask(r, chosen, name, drawn) for name in chosen.answers]
        if not any(_is_given_away(fact, drawn, facts) for fact in facts):
            break
    else:
        raise RuntimeError(f"no clear words for {chosen.statements[0]!r}")
    text = expand(r, pick(r, chosen.statements)).replace("\\n", "\n")
    text = start(_put(text, drawn))
    role = pick(r, chosen.roles)
    turns = [say(role, fillers.around(r, fillers.loosen(r, text), 0.35, 0.35))]
    if role == "tool":
        turns.insert(0, call(r))
    elif role == "user" and chance(r, 0.6):
        turns.append(say("assistant", fillers.acknowledgement(r)))
    elif role == "assistant" and chance(r, 0.4):
        turns.insert(0, say("user", fillers.request(r)))
    return scene(turns, facts)


def _put(template: str, drawn: dict[str, str]) -> str:
    """The words put in; where one is marked, an article of it goes before the bracket."""
    for name, word in drawn.items():
        core = bare(word)
        template = template.replace(f"[[{{{name}}}]]", f"{word[: len(word) - len(core)]}[[{core}]]")
        template = template.replace(f"{{{name}}}", word)
    return template


def _ask(r: random.Random, chosen: Pattern, name: str, drawn: dict[str, str]) -> Fact:
    kind, templates = chosen.answers[name]
    asks = r.sample(templates, min(len(templates), r.randint(3, 6)))
    return Fact(tuple(capital(_put(ask, drawn)) for ask in asks), bare(drawn[name]), kind)


def _is_given_away(fact: Fact, drawn: dict[str, str], facts: list[Fact]) -> bool:
    answer = fact.answer.lower()
    others = [word for word in drawn.values() if bare(word) != fact.answer]
    if len(others) != len(drawn) - 1 or any(answer in word.lower() for word in others):
        return True
    return any(answer in ask.lower() for one in facts for ask in one.questions)


def make_two(maker: Maker) -> dict[str, Maker]:
    """Two words of one maker, as x and y."""
    return {"x": maker, "y": maker}


def one_word(text: str) -> Maker:
    """A maker of one out of the phrases that semicolons divide."""
    phrases = tuple(" ".join(phrase.split()) for phrase in text.split(";"))
    return lambda r: pick(r, phrases)


def verb_object(r: random.Random) -> str:
    """A small task in a few words: "rebuild the price index"."""
    verb = pick(r, _VERBS)
    noun = pick(r, (words.code_word, words.noun, words.thing))(r)
    tail = pick(r, ("", "", "", "", " list", " table", " page", " tests", " report", " plan"))
    return f"{verb} the {noun}{tail}"


_VERBS = split_words("""
    rebuild check rename drop split merge move clean migrate document test review replace order count repair paint label
    weigh sort archive encrypt measure rewrite translate update print fetch restart inspect copy
""")
