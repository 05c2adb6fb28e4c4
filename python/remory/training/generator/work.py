"""Scenes of working sessions that hold facts: statements, questions and answers, corrections, tables, tool output."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from remory.training.generator import artefacts, exchanges, facts, fillers, listings, words
from remory.training.generator.calls import call
from remory.training.generator.grammar import expand
from remory.training.generator.patterns import tell_pattern
from remory.training.generator.rules import PATTERNS
from remory.training.generator.statements import (
    Triple,
    bare,
    draw_rivals,
    fill,
    mark,
    split_lines,
    start,
    state,
    to_fact,
    write_clause,
)
from remory.training.generator.words import capital, chance, pick
from remory.training.sessions import Fact, Scene, Turn, say, scene


def _reply(r: random.Random) -> list[Turn]:
    return [say("assistant", fillers.acknowledgement(r))] if chance(r, 0.75) else []


def _lead(r: random.Random) -> list[Turn]:
    return [say("user", fillers.greet(r, fillers.request(r)))] if chance(r, 0.6) else []


# --- prose -----------------------------------------------------------------------------------------------------------


def tell(r: random.Random) -> Scene:
    """The asking side says something in a sentence or two, the other assents."""
    triple = facts.draw(r)
    text = fillers.around(r, fillers.loosen(r, state(r, triple, words.owner(r))), 0.3, 0.4)
    return scene([say("user", fillers.greet(r, text)), *_reply(r)], [to_fact(r, triple)])


def report(r: random.Random) -> Scene:
    """The answering side has looked something up and tells it amid other remarks."""
    triple = facts.draw(r)
    text = fillers.around(r, state(r, triple, words.owner(r)), 0.6, 0.6)
    return scene([*_lead(r), say("assistant", text)], [to_fact(r, triple)])


def answer(r: random.Random) -> Scene:
    """A question by one role and a short answer by the other."""
    triple = facts.draw(r)
    question = pick(r, triple.attribute.questions).replace("{e}", mark(triple.entity))
    question = start(question.replace("{a}", f"[[{triple.label}]]"))
    replies = (
        "{v}.",
        "{v}",
        "{v}, as far as I know.",
        "That would be {v}.",
        "It is {v}.",
        "{v}, I just looked.",
        "{v} - I had to ask {o}.",
        "Easy: {v}.",
        "{v}, since the last change.",
        "{v}. Why?",
        "Last I heard: {v}.",
        "The answer is {v}.",
        "I asked {o} and they say {v}.",
        "{v}, at least on paper.",
    )
    reply = pick(r, replies).replace("{v}", mark(triple.value)).replace("{o}", words.owner(r))
    reply = start(reply)
    first, second = pick(r, (("user", "assistant"), ("assistant", "user"), ("assistant", "user")))
    if chance(r, 0.35):
        reply += " " + fillers.fillers(r, 1, 2)
    turns = [say(first, fillers.around(r, question, 0.35, 0.0)), say(second, reply)]
    return scene(turns, [to_fact(r, triple)])


def correct(r: random.Random) -> Scene:
    """A value is told and then replaced by a newer one, by the same role or the other."""
    attribute = pick(r, facts.ATTRIBUTES)
    old, new = draw_rivals(r, attribute, 2)
    old = Triple(attribute, new.entity, old.value, new.label)
    told = state(r, old, words.owner(r)).replace("[[", "").replace("]]", "")
    newer = pick(r, _CORRECTIONS)
    newer = newer.replace("{c}", write_clause(r, new)).replace("{o}", old.value)
    text = start(fill(newer, new))
    turns = [say("user", told), *_reply(r)]
    if chance(r, 0.4):
        turns += _lead(r) + [say("assistant", fillers.fillers(r, 1, 2))]
    turns.append(say("user", fillers.around(r, text, 0.2, 0.3)))
    return scene([*turns, *_reply(r)], [to_fact(r, new, old.value)])


_CORRECTIONS = (
    "Scratch that: {c}.",
    "Change of plan, {c}.",
    "Not {o} after all: {c}.",
    "I was wrong about {o}; {c}.",
    "Update: {c}, no longer {o}.",
    "Make that {v} for {e} ([[{a}]]).".replace("[[{a}]]", "{a}"),
    "{e}: {a} {v} instead of {o}.",
    "The {a} of {e} changes from {o} to {v}.",
    "Forget {o}. For {e} we take {v} as {a}.",
    "Since this morning {c}.",
    "New word from above: {c}. {o} is history.",
    "Sorry, {o} was the old {a}; {e} has {v} now.",
    "Please replace {o}: the {a} of {e} is {v} from now on.",
    "We had to move from {o} to {v} as the {a} of {e}.",
    "After the review {c}, where it used to be {o}.",
    "Hold on, the {a} of {e} is not {o} but {v}.",
    "About {e}: its {a} is {v} now, the {o} from before no longer holds.",
)


def contrast(r: random.Random) -> Scene:
    """Two or three entities with different values of the same attribute, in one breath."""
    attribute = pick(r, facts.ATTRIBUTES)
    triples = draw_rivals(r, attribute, r.choice((2, 2, 3)), chance(r, 0.7))
    text = pick(r, (_contrast_clauses, _contrast_clauses, _contrast_short, _contrast_list))(r, triples)
    role = pick(r, ("user", "assistant"))
    turns = [say(role, fillers.around(r, text, 0.35, 0.35))]
    return scene([*turns, *(_reply(r) if role == "user" else [])], [to_fact(r, triple) for triple in triples])


def _contrast_clauses(r: random.Random, triples: Sequence[Triple]) -> str:
    template = pick(r, triples[0].attribute.clauses)
    joint = pick(
        r, (", while ", ", whereas ", " and ", "; ", ", but ", ". As opposed to that, ", ", and on the other hand ")
    )
    if len(triples) == 3:
        joint = pick(r, (", ", "; ", ", and "))
    return start(joint.join(fill(template, triple) for triple in triples)) + "."


def _contrast_short(r: random.Random, triples: Sequence[Triple]) -> str:
    pair = pick(r, ("{v} for {e}", "{e} has {v}", "{e}: {v}", "{e} {v}", "{v} with {e}", "{v} in the case of {e}"))
    parts = [fill(pair, triple) for triple in triples]
    label = f"[[{triples[0].label}]]"
    head = pick(r, (f"the {label} differs: ", f"{label}, once more: ", f"mind the {label}, ", f"as {label} we have "))
    return (
        capital(head)
        + pick(r, (", ", "; ", " / ")).join(parts[:-1])
        + pick(r, (" and ", ", ", ", but "))
        + parts[-1]
        + "."
    )


def _contrast_list(r: random.Random, triples: Sequence[Triple]) -> str:
    bullet = pick(r, ("- ", "* ", "  ", "1) "))
    glue = pick(r, (": ", " -> ", " = ", " - ", " (", ", "))
    close = ")" if glue == " (" else ""
    label = f"[[{triples[0].label}]]"
    head = pick(r, (f"{label} of each:", f"The {label}:", f"Here is the {label} for both:", f"{label} (settled):"))
    lines = [f"{bullet}{mark(bare(one.entity))}{glue}{mark(one.value)}{close}" for one in triples]
    return "\n".join([head, *lines])


def profile(r: random.Random) -> Scene:
    """Two or three attributes of one entity: in prose, in a list or on one line."""
    triples = facts.draw_profile(r, r.choice((2, 2, 3)))
    text = pick(r, (_profile_prose, _profile_list, _profile_line))(r, triples)
    role = pick(r, ("user", "assistant"))
    turns = [*(_lead(r) if role == "assistant" else []), say(role, fillers.around(r, text, 0.3, 0.3))]
    return scene([*turns, *(_reply(r) if role == "user" else [])], [to_fact(r, triple) for triple in triples])


def _profile_prose(r: random.Random, triples: Sequence[Triple]) -> str:
    first, *others = triples
    text = start(write_clause(r, first))
    for triple in others:
        template = pick(r, ("its {a} is {v}", "with {v} as {a}", "the {a} is {v}", "{a} {v}", "and the {a}? {v}"))
        glue = pick(r, (", ", "; ", ", and ", " - "))
        text += glue + fill(template, triple)
    return text + "."


def _profile_list(r: random.Random, triples: Sequence[Triple]) -> str:
    bullet = pick(r, ("- ", "* ", "  ", ""))
    lines = [f"{bullet}[[{one.label}]]: {mark(one.value)}" for one in triples]
    head = pick(r, ("About {e}:", "{e}", "{e}:", "Notes on {e}", "What I have on {e}:", "## {e}"))
    return "\n".join([start(fill(head, triples[0])), *lines])


def _profile_line(r: random.Random, triples: Sequence[Triple]) -> str:
    glue, equal = pick(r, (", ", " | ", "; ", " / ")), pick(r, (" ", ": ", " = ", "="))
    parts = glue.join(f"[[{one.label}]]{equal}{mark(one.value)}" for one in triples)
    return start(fill(pick(r, ("{e}: ", "{e} - ", "For {e}: ", "({e}) ", "{e} has ")), triples[0])) + parts


def decide(r: random.Random) -> Scene:
    """Two options are weighed and one is taken."""
    attribute = pick(r, facts.ATTRIBUTES)
    taken, other = draw_rivals(r, attribute, 2)
    other_value = other.value
    weighing = pick(r, _WEIGHINGS).replace("{o}", other_value)
    weighing = expand(r, weighing.replace("{x}", taken.value).replace("{E}", taken.entity).replace("{A}", taken.label))
    verdict = pick(r, _VERDICTS).replace("{o}", other_value)
    verdict = start(fill(expand(r, verdict), taken))
    turns = [say("assistant", capital(weighing)), say("user", verdict)]
    return scene([*turns, *_reply(r)], [to_fact(r, taken)])


_WEIGHINGS = (
    "For the {A} of {E} I see two candidates, {x} and {o}.",
    "{o} or {x}: both would do as the {A} of {E}. What do you prefer?",
    "We have to choose the {A} of {E}. {o} is what others use, {x} is simpler.",
    "There are arguments for {x} and for {o}. <owner> has no opinion.",
    "Option one is {o}, option two is {x}. I lean to the second, because <reason>.",
    "Either {x} or {o}, I can live with both.",
)
_VERDICTS = (
    "Take {v} as the {a} of {e}.",
    "{v}, then. That is the {a} of {e} from here on.",
    "We go with {v} for {e}; the {a} has been open long enough.",
    "{a} of {e}: {v}. {o} is out because <reason>.",
    "Not {o}. {e} gets {v} as its {a}.",
    "<owner> decided for {v} ({a} of {e}).",
    "Let us settle the {a} of {e} on {v}, and drop {o}.",
    "I talked to <owner>. {e} will have {v} as {a}.",
    "{v} wins. So the {a} of {e} is fixed.",
)


def justify(r: random.Random) -> Scene:
    """Something was done for a reason; the reason is what is asked for."""
    subject, predicate, question = expand(r, pick(r, _DEEDS)).split(" | ")
    cause = words.reason(r)
    text = pick(r, _BECAUSES).replace("{s}", mark(subject)).replace("{d}", predicate).replace("{r}", f"[[{cause}]]")
    plain = predicate.replace("[[", "").replace("]]", "")
    asks = [ask.replace("{q}", question).replace("{s}", subject).replace("{d}", plain) for ask in r.sample(_WHYS, 4)]
    role = pick(r, ("user", "assistant"))
    turns = [say(role, fillers.around(r, start(text), 0.35, 0.3))]
    fact = Fact(tuple(ask.replace("{s}", subject) for ask in asks), cause, "reason")
    return scene([*turns, *(_reply(r) if role == "user" else [])], [fact])


_DEEDS = split_lines("""
    the <noun> import | was [[postponed]] | was the import postponed
    <service> | was [[replaced]] | was {s} replaced
    <service> | is being [[rewritten]] | is {s} being rewritten
    the <adjective> <noun> | was [[returned]] | was {s} returned
    the <word> cache | is [[switched off]] | is {s} switched off
    <host> | was [[retired]] | was {s} retired
    the release of <product> | has [[slipped]] | has {s} slipped
    <function> | was [[removed]] | was {s} removed
    the <kebab> flag | stays [[disabled]] | does {s} stay disabled
    the order of the <plural> | was [[reversed]] | was {s} reversed
    <ticket> | was [[closed]] | was {s} closed
    <ticket> | was [[reopened]] | was {s} reopened
    the <plural> table | was [[split]] in two | was {s} split
    <service> | was [[rolled back]] | was {s} rolled back
    the <place> site | [[left]] the pilot | did {s} leave the pilot
    the old <noun> | is [[kept]] for now | is {s} kept
    the <word> step | [[runs twice]] | does {s} run twice
    the key in <file> | was [[changed]] | was {s} changed
    the <noun> meeting | was [[moved]] | was {s} moved
    <branch> | was [[not merged]] | was {s} not merged
    the <word> check | is [[skipped]] | is {s} skipped
    the contract for <product> | was [[cancelled]] | was {s} cancelled
    <test> | is [[quarantined]] | is {s} quarantined
    the <noun> budget | was [[raised]] | was {s} raised
    the <word> endpoint | [[answers slowly]] | does {s} answer slowly
    the <weekday> run | was [[dropped]] | was {s} dropped
    <tool> | was [[ruled out]] | was {s} ruled out
    the dashboard of <service> | was [[frozen]] | was {s} frozen
    the second <noun> | was [[locked]] | was {s} locked
    access to <folder> | was [[revoked]] | was {s} revoked
""")
_BECAUSES = split_lines("""
    {s} {d} because {r}.
    Because {r}, {s} {d}.
    {s} {d}; the reason: {r}.
    As {r}, {s} {d}.
    If you wonder why {s} {d}: {r}.
    {s} {d} since {r}.
    The reason that {s} {d} is simple, {r}.
    {s} {d}. Why? Because {r}.
    {s} {d} (reason: {r}).
    {r}, which is why {s} {d}.
    {r}, so {s} {d}.
    It is not a mystery that {s} {d}: {r}.
    {s} {d}, given that {r}.
    We found that {r}. For that reason {s} {d}.
    {s} {d} - {r}.
    Officially {s} {d} because {r}, and I believe it.
    # {s} {d} because {r}
    {s} {d} on the ground that {r}.
""")
_WHYS = split_lines("""
    Why {q}?
    For what reason {q}?
    How come {s} {d}?
    What is the reason that {s} {d}?
    Do you remember why {s} {d}?
    Explain why {s} {d}.
    What lay behind it that {s} {d}?
""")


def hand_over(r: random.Random) -> Scene:
    """Notes of a meeting or for the next shift: some lines, of which some hold facts."""
    triples = [facts.draw(r) for _ in range(r.choice((1, 2, 2, 3)))]
    while not facts.are_separate(triples):
        triples = [facts.draw(r) for _ in range(len(triples))]
    lines = [state(r, triple, words.owner(r)) for triple in triples]
    lines += [fillers.digress(r) for _ in range(r.randint(0, 2))]
    r.shuffle(lines)
    bullet = pick(r, ("- ", "* ", "{n}. ", "[ ] ", "> ", "", "{n}) "))
    body = "\n".join(bullet.replace("{n}", str(n)) + line for n, line in enumerate(lines, 1))
    head = expand(r, pick(r, _NOTE_HEADS))
    role = pick(r, ("user", "assistant", "user", "tool"))
    opening = [say("assistant", expand(r, "Let me open <path>."))] if role == "tool" else []
    return scene([*opening, say(role, f"{head}\n{body}"), *_reply(r)], [to_fact(r, triple) for triple in triples])


_NOTE_HEADS = split_lines("""
    Notes from the call:
    Handover, <weekday>:
    Minutes (<date>)
    What was said in <event>:
    For the next shift:
    Points from <owner>:
    Summary of the thread:
    # Notes
    Open and settled points:
    From my notebook:
    Status mail, shortened:
    Decisions so far
    What I learned while reading <path>:
    Pasted from the wiki:
""")


def follow_pattern(r: random.Random) -> Scene:
    """A rule, a wish, a next step, a result, an incident or a practice, in sentences of its own."""
    return tell_pattern(r, pick(r, PATTERNS))


def refer_back(r: random.Random) -> Scene:
    """The entity is named first and the fact told later, with a pronoun or none."""
    triples = facts.draw_profile(r, r.choice((1, 1, 2)))
    naming = start(expand(r, pick(r, _NAMINGS)).replace("{e}", mark(triples[0].entity)))
    told = [start(fill(pick(r, _ELLIPSES), triple).replace("{o}", words.owner(r))) for triple in triples]
    between = fillers.fillers(r, 0, 2)
    text = " ".join(part for part in (between, *told) if part)
    if chance(r, 0.55):
        first, second = pick(r, (("user", "assistant"), ("assistant", "user")))
        turns = [say(first, naming), say(second, text)]
    else:
        turns = [say(pick(r, ("user", "assistant")), f"{naming} {text}")]
    return scene(turns, [to_fact(r, triple) for triple in triples])


_NAMINGS = split_lines("""
    Now about {e}.
    I had a closer look at {e} today.
    Next: {e}.
    We still have to talk about {e}.
    Let us turn to {e}.
    What do you have on {e}?
    Anything new about {e}?
    I am stuck with {e}.
    {e} is the next on the list.
    Somebody asked me about {e} yesterday.
    I tried {e}, as you said.
    Remember {e}?
    {e} again, sorry.
    As to {e}:
    I am setting up {e} and miss one thing.
    Tell me what you know about {e}.
    <owner> has a question on {e}.
""")
_ELLIPSES = split_lines("""
    The {a} is {v}.
    Its {a} is {v}.
    Its {a} was changed to {v}.
    {a}: {v}.
    The {a}, by the way, is {v}.
    We agreed on {v} for the {a}.
    {o} set the {a} to {v}.
    It has {v} as {a}.
    I wrote down {v} as the {a}.
    It should have {v} for its {a}.
    The {a} that works is {v}.
    Use {v} as the {a}.
    There the {a} is {v}, and it will stay so.
    The {a} must be {v}, says {o}.
    Take {v} for the {a}, everything else is optional.
    I looked up the {a}: {v}.
    {v} for the {a}, unless I misread it.
    What it lacks is the right {a}, namely {v}.
""")


def pass_on(r: random.Random) -> Scene:
    """A message of a team is pasted, with a greeting, some talk and a fact in it."""
    triple = facts.draw(r)
    told = state(r, triple, words.owner(r))
    lines = [fillers.digress(r), told, fillers.digress(r)]
    r.shuffle(lines)
    head = expand(r, pick(r, _MESSAGE_HEADS))
    tail = expand(r, pick(r, _MESSAGE_TAILS))
    glue = pick(r, (" ", "\n"))
    text = "\n".join(part for part in (head, glue.join(lines[: r.randint(2, 3)]), tail) if part)
    if told not in text:
        text = f"{head}\n{told}\n{tail}".rstrip()
    role = pick(r, ("user", "user", "tool"))
    turns = [call(r)] if role == "tool" else []
    return scene([*turns, say(role, text), *_reply(r)], [to_fact(r, triple)])


_MESSAGE_HEADS = split_lines("""
    Forwarded from <owner>:
    This came in from <team>:
    Subject: <word> <word>
    [<clock>] <team>:
    > <team> wrote on <weekday>:
    Dear all,
    Hi team,
    A mail from <owner>, I paste it:
    Message in the channel, <clock>:
    -- begin of message --
    Comment by <role> on <ticket>:
    From: <team>\nSubject: <noun>
""")
_MESSAGE_TAILS = (
    "",
    "",
    "Regards, <team>",
    "Thanks!",
    "Cheers",
    "-- end of message --",
    "Best, <role>",
    "(read by <small>)",
    "So much for that.",
)

SCENES: tuple[Callable[[random.Random], Scene], ...] = (
    tell,
    tell,
    tell,
    report,
    report,
    report,
    answer,
    answer,
    correct,
    correct,
    contrast,
    contrast,
    profile,
    profile,
    decide,
    decide,
    justify,
    justify,
    hand_over,
    hand_over,
    follow_pattern,
    follow_pattern,
    follow_pattern,
    follow_pattern,
    follow_pattern,
    refer_back,
    refer_back,
    refer_back,
    pass_on,
    *artefacts.SCENES,
    *exchanges.SCENES,
    *listings.SCENES,
    *listings.SCENES,
)
