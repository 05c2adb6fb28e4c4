"""Scenes in which two roles come to a fact together: by haggling, by confirming, by sharing out work."""

from __future__ import annotations

import random
from collections.abc import Callable

from remory.training.generator import facts, fillers, words
from remory.training.generator.grammar import expand
from remory.training.generator.patterns import verb_object
from remory.training.generator.statements import (
    Triple,
    bare,
    draw_rivals,
    fill,
    mark,
    split_lines,
    start,
    to_fact,
)
from remory.training.generator.words import capital, chance, pick
from remory.training.sessions import Fact, Scene, Turn, say, scene


def _strip(text: str) -> str:
    return text.replace("[[", "").replace("]]", "")


def haggle(r: random.Random) -> Scene:
    """One role proposes a value, the other names another, which holds."""
    rival, settled = draw_rivals(r, pick(r, facts.ATTRIBUTES), 2)
    proposed = Triple(settled.attribute, settled.entity, rival.value, settled.label)
    first = fill(pick(r, _PROPOSALS), proposed).replace(mark(rival.value), rival.value)
    second = pick(r, _COUNTERS).replace("{v}", mark(settled.value)).replace("{o}", rival.value)
    one, other = pick(r, (("assistant", "user"), ("assistant", "user"), ("user", "assistant")))
    turns = [say(one, fillers.around(r, start(first), 0.35, 0.2)), say(other, start(expand(r, second)))]
    if one == "assistant" and chance(r, 0.6):
        turns.append(say("assistant", fillers.acknowledgement(r)))
    return scene(turns, [to_fact(r, settled, rival.value if chance(r, 0.3) else "")])


_PROPOSALS = split_lines("""
    For the {a} of {e} I would suggest {v}.
    I put {v} as the {a} of {e}, is that all right?
    How about {v} as the {a} of {e}?
    Without another word from you, {e} gets {v} as its {a}.
    My draft has {v} for the {a} of {e}.
    {e} still lacks a {a}; I guess {v}.
    Shall I set the {a} of {e} to {v}?
    I assume that the {a} of {e} is {v}. Correct me if not.
    Default {a} of {e}: {v}. Keep it?
    As {a} for {e}, {v} came to mind.
""")
_COUNTERS = split_lines("""
    Make it {v}.
    Rather {v}.
    No, {v}.
    {v}, please.
    I would take {v}, because <reason>.
    Not {o}. {v}.
    Almost: {v}.
    {o} will not do, take {v}.
    <owner> wants {v}, so {v} it is.
    We had {o} once and regretted it. Put {v}.
    That is the old one. The right one is {v}.
    Go for {v} instead.
    {v} would be better.
    Hm, {v}. The rest is fine.
    No need to guess, it is {v}.
    Wrong, it has been {v} since <weekday>.
    Let us be careful and say {v}.
    Change that to {v} and go ahead.
""")


def confirm(r: random.Random) -> Scene:
    """One role asks whether a value is right, the other says that it is."""
    triple = facts.draw(r)
    question = start(fill(pick(r, _CHECKS), triple))
    one, other = pick(r, (("assistant", "user"), ("user", "assistant")))
    reply = expand(r, pick(r, _YES))
    if chance(r, 0.4):
        reply += " " + fillers.filler(r)
    return scene([say(one, fillers.around(r, question, 0.3, 0.0)), say(other, reply)], [to_fact(r, triple)])


_CHECKS = split_lines("""
    Is the {a} of {e} still {v}?
    {e} has {v} as its {a}, right?
    Just to be sure: {a} of {e}, {v}?
    Did I get that right, {v} for the {a} of {e}?
    Am I correct in thinking that the {a} of {e} is {v}?
    I have {v} here as the {a} of {e}. Does it hold?
    So {e} keeps {v} as {a}?
    Can you confirm {v} as the {a} for {e}?
    {v} is the {a} of {e}, or has that changed?
    The {a} of {e} was {v} when I looked. Still so?
""")
_YES = split_lines("""
    Yes.
    Yes, that is right.
    Correct.
    Exactly.
    Still the same.
    It does.
    Right.
    Confirmed.
    Yes, nothing has changed.
    Yes, I looked a minute ago.
    That is what <owner> told me too.
    Yep, unchanged.
    You are right.
    True.
    Indeed, as before.
    It is, I checked with <owner>.
""")


def share_out(r: random.Random) -> Scene:
    """Tasks are given to teams or roles, at times with a day; who does what, and by when, is asked."""
    number = r.choice((1, 2, 2))
    with_day = number == 1 or chance(r, 0.25)
    while True:
        tasks = words.distinct(r, verb_object, number)
        owners = words.distinct(r, words.owner, number)
        days = words.distinct(r, pick(r, (words.weekday, words.date)), number)
        if not any(bare(owner) in task for owner in owners for task in tasks):
            break
    template = pick(r, _DUTIES_WITH_DAY if with_day else _DUTIES)
    lines = [start(_assign(template, task, owner, day)) for task, owner, day in zip(tasks, owners, days, strict=True)]
    glue = "\n" if number > 1 and chance(r, 0.6) else " "
    bullet = pick(r, ("- ", "* ", "")) if glue == "\n" else ""
    text = glue.join(bullet + line for line in lines)
    told: list[Fact] = []
    for task, owner, day in zip(tasks, owners, days, strict=True):
        told.append(Fact(_ask_about(r, _WHO, task), bare(owner), "team"))
        if with_day and number == 1:
            told.append(Fact(_ask_about(r, _WHEN, task), bare(day), "date"))
    role = pick(r, ("user", "assistant", "user"))
    turns: list[Turn] = [say(role, fillers.around(r, text, 0.35, 0.3))]
    if role == "user" and chance(r, 0.6):
        turns.append(say("assistant", fillers.acknowledgement(r)))
    return scene(turns, told)


def _assign(template: str, task: str, owner: str, day: str) -> str:
    text = template.replace("{t}", f"[[{task}]]").replace("{o}", mark(owner))
    return text.replace("{d}", mark(day))


def _ask_about(r: random.Random, asks: tuple[str, ...], task: str) -> tuple[str, ...]:
    return tuple(capital(ask.replace("{t}", task)) for ask in r.sample(asks, r.randint(3, 5)))


_DUTIES = split_lines("""
    {o} will {t}.
    {t}: {o}.
    {o} offered to {t}.
    {t} falls to {o}.
    It is up to {o} to {t}.
    I asked {o} to {t}.
    {o} has agreed to {t}.
    To {t} is the job of {o}.
    {o} should {t} as soon as possible.
    Dear {o}, please {t}.
    {t} ({o})
    {o}: {t}
    [ ] {t} -> {o}
    Somebody has to {t}, and it will be {o}.
    {o} is going to {t}, nobody else.
""")
_DUTIES_WITH_DAY = split_lines("""
    {o} will {t} by {d}.
    {t}: {o}, {d}.
    {o} offered to {t} on {d}.
    I asked {o} to {t} before {d}.
    By {d}, {o} has to {t}.
    {t} | {o} | {d}
    {o} is to {t}; deadline {d}.
    On {d} {o} will {t}, if all goes well.
    {o} needs until {d} to {t}.
    [ ] {t} ({o}, due {d})
""")
_WHO = split_lines("""
    Who is going to {t}?
    Who has to {t}?
    Whose job is it to {t}?
    To whom does it fall to {t}?
    Who agreed to {t}?
    Whom did we give the task to {t}?
""")
_WHEN = split_lines("""
    By when is it planned to {t}?
    What is the date for the task to {t}?
    Which day was set to {t}?
    When should somebody {t}?
    What is the deadline to {t}?
    By which day must it be done to {t}?
""")


def mention_rejected(r: random.Random) -> Scene:
    """A value is told in a clause beside others that were thrown out; only the one that holds is marked."""
    attribute = pick(r, facts.ATTRIBUTES)
    kept, *dropped = draw_rivals(r, attribute, 3)
    others = [one.value for one in dropped]
    text = fill(pick(r, _SIEVES), kept).replace("{p}", others[0]).replace("{q}", others[1])
    text = start(expand(r, text))
    role = pick(r, ("user", "assistant"))
    turns = [say(role, fillers.around(r, text, 0.3, 0.3))]
    if role == "assistant":
        turns.insert(0, say("user", fillers.request(r)))
    return scene(turns, [to_fact(r, kept)])


_SIEVES = split_lines("""
    We tried {p} and {q} as the {a} of {e} and ended up with {v}.
    The {a} of {e}: first {p}, then {q}, in the end {v}.
    Among {p}, {q} and {v}, only the last will do as the {a} of {e}.
    {e} had {p} as its {a} for years, {q} for a day, and has {v} now.
    {p} was too much and {q} too little, so {e} got {v} for its {a}.
    The wiki gives {p} as the {a} of {e}, the mail says {q}; the truth is {v}.
    Not {p}, not {q}: the {a} of {e} is {v}.
    <owner> argued for {p}, <owner> for {q}; the {a} of {e} became {v}.
    I read {p} somewhere and {q} elsewhere, but {v} is the {a} of {e}.
    After {p} and {q} failed, {v} is the {a} of {e}.
    For {e} we keep {v} as {a}; {p} and {q} are off the table.
""")


def muse(r: random.Random) -> Scene:
    """Values are turned over for something, and none is settled: nothing to keep."""
    attribute = pick(r, facts.ATTRIBUTES)
    one, other = draw_rivals(r, attribute, 2)
    text = _strip(fill(pick(r, _MUSINGS), one)).replace("{o}", other.value)
    role, second = pick(r, (("user", "assistant"), ("assistant", "user")))
    reply = pick(r, (fillers.acknowledgement, fillers.filler))(r)
    return scene([say(role, fillers.around(r, capital(expand(r, text)), 0.3, 0.3)), say(second, reply)])


_MUSINGS = split_lines("""
    Could the {a} of {e} be {v}, or {o}? I have no idea.
    Somebody ought to find out the {a} of {e}.
    What would happen if the {a} of {e} were {v}? Only a thought.
    I am not saying that {v} is right as the {a} of {e}, only that it is possible.
    Let us leave the {a} of {e} open for now.
    We never settled the {a} of {e}, did we?
    Whether it is {v} or {o} for {e}, nobody could tell me.
    {v}, {o}, who knows. The {a} of {e} can wait.
    If I had to bet, {v}. But please do not write it down for {e}.
    An example with made-up numbers: say {e} had {v} as {a}.
    Imagine a {a} of {v}. Now imagine {o}. You see the problem.
    The question of the {a} of {e} is for <owner>.
    I dreamt that the {a} of {e} was {v}. Too much coffee.
    In the tutorial the {a} is {v}, which is a placeholder.
""")


SCENES: tuple[Callable[[random.Random], Scene], ...] = (
    haggle,
    haggle,
    confirm,
    share_out,
    share_out,
    mention_rejected,
    muse,
    muse,
)
