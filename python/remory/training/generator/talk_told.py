"""Scenes of talk in which something is told that may be asked for later."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from remory.training.generator.talk_forms import acknowledge, idle, plan, state, wish, wrap
from remory.training.generator.talk_topics import (
    FIELDS,
    Claim,
    capital,
    choose,
    draw_claim,
    draw_entity,
    draw_rivals,
)
from remory.training.generator.talk_values import VALUES
from remory.training.sessions import Fact, Scene, Turn, say, scene


def bare(text: str) -> str:
    """The text without marks."""
    return text.replace("[[", "").replace("]]", "")


def repeat(r: random.Random, claim: Claim) -> str:
    """An unmarked repetition of the claim by whoever was told."""
    said = bare(claim.clause(r))
    form = r.choice(("Okay: {}.", "Noted: {}.", "So {}. Good.", "Understood, {}.", "I keep in mind: {}.", "Right, {}."))
    return form.format(said) + (" " + plan(r) if r.random() < 0.3 else "")


def answer(r: random.Random, claim: Claim) -> str:
    """What the other side says after a claim: an acknowledgement, advice, or a repetition."""
    roll = r.random()
    if roll < 0.5:
        return acknowledge(r)
    return plan(r) if roll < 0.72 else repeat(r, claim)


def facts_of(r: random.Random, turns: Sequence[Turn], claims: Sequence[Claim]) -> Scene:
    """A scene of the turns with a fact for each of the claims."""
    facts = []
    for claim in claims:
        fact = claim.fact(r)
        facts.append(replace(fact, answer=as_stated(turns, fact.answer)))
    return scene(turns, facts)


def as_stated(turns: Sequence[Turn], value: str) -> str:
    """The value as some mark of the turns holds it: at the start of a sentence it has a capital."""
    marked = [turn.text[start:stop] for turn in turns for start, stop in turn.marks]
    return next((text for text in marked if text.lower() == value.lower()), value)


def mention(r: random.Random) -> Scene:
    """One claim in a message, by either side, with an answer most of the time."""
    claim = draw_claim(r)
    told = wrap(r, state(r, claim))
    if r.random() < 0.2:
        asked = say("user", wish(r, claim.entity) + (" " + idle(r, 1) if r.random() < 0.4 else ""))
        return facts_of(r, (asked, say("assistant", told)), (claim,))
    turns = [say("user", told)]
    if r.random() < 0.85:
        turns.append(say("assistant", answer(r, claim)))
    return facts_of(r, turns, (claim,))


def mention_two(r: random.Random) -> Scene:
    """Two claims of one field or of different fields in one message or in two."""
    first = draw_claim(r)
    field = r.choice(FIELDS)
    second = draw_claim(r, field, avoid=(first.value, first.entity, first.attribute.noun))
    one, two = state(r, first), state(r, second)
    link = r.choice((" ", " Also, ", " And ", "\n", " Then there is this: ", " Unrelated: ", "\n\n", " "))
    if link.endswith(("and ", "Also, ", "And ")) and one[-1] in "!?":
        link = " "
    if r.random() < 0.55:
        turns = [say("user", one + link + two), say("assistant", acknowledge(r))]
    else:
        turns = [say("user", wrap(r, one)), say("assistant", acknowledge(r)), say("user", wrap(r, two))]
        if r.random() < 0.6:
            turns.append(say("assistant", answer(r, second)))
    return facts_of(r, turns, (first, second))


def rivals(r: random.Random) -> Scene:
    """The same attribute of two or three things, in one sentence, in several, or over turns."""
    claims = draw_rivals(r, r.choice(FIELDS), r.choice((2, 2, 2, 3)))
    parts = [claim.clause(r) for claim in claims]
    form = r.randrange(5)
    if form == 0:
        link = r.choice((", while ", ", whereas ", ", but ", "; ", ", and ", " / "))
        text = capital(link.join(parts)) + "."
    elif form == 1:
        text = " ".join(capital(part) + "." for part in parts)
    elif form == 2:
        noun = claims[0].attribute.noun
        pairs = [f"[[{c.value}]] for the [[{c.entity}]]" for c in claims]
        lead = r.choice(("Do not mix them up, the {}: ", "On the {}: ", "Two kinds of {}: ", "The {} differs: "))
        text = lead.format(f"[[{noun}]]") + r.choice((", ", " but ", " and ", ", then ")).join(pairs) + "."
    elif form == 3:
        dash = r.choice(("- ", "* ", "+ ", "1) ", "-> "))
        text = idle(r, 1) + "\n" + "\n".join(dash + capital(part) for part in parts)
    else:
        turns = []
        for part in parts:
            turns += [say("user", capital(part) + "."), say("assistant", acknowledge(r))]
        return facts_of(r, turns[: r.choice((len(turns), len(turns) - 1))], claims)
    turns = [say("user", wrap(r, text)), say("assistant", acknowledge(r))]
    return facts_of(r, turns, claims)


def ask_back(r: random.Random) -> Scene:
    """One side asks for what is not known yet, the other answers with little more than the value."""
    claim = draw_claim(r)
    noun = f"[[{claim.attribute.noun}]]"
    asked = r.choice(
        (
            f"What {noun} should I note for the [[{claim.entity}]]?",
            f"Which {noun} do you want for the [[{claim.entity}]]?",
            f"And the [[{claim.entity}]], what about its {noun}?",
            f"I do not have the {noun} of the [[{claim.entity}]] yet. What is it?",
            f"Before I go on with the [[{claim.entity}]]: {noun}?",
            f"For the [[{claim.entity}]] one thing is open, the {noun}. Could you say?",
            f"Let me ask about the [[{claim.entity}]]. Do we know the {noun}?",
            f"The field {noun} is still empty at the [[{claim.entity}]]. What goes there?",
        )
    )
    value = f"[[{claim.value}]]"
    replied = r.choice(
        (
            f"{value}.",
            f"{value}",
            f"{value}, please.",
            f"I looked: {value}.",
            f"{value}, as far as I know.",
            f"{value}. {idle(r, 1)}",
            f"{value} it is.",
            f"Let me see... {value}.",
            f"Hm, {value}, I asked {VALUES['role'](r)}.",
            f"{idle(r, 1)} {value}.",
            f"Take {value}.",
            f"That would be {value}.",
            f"{value}, unless you see a reason against it.",
        )
    )
    start = r.choice(("user", "assistant"))
    other = "assistant" if start == "user" else "user"
    before = [say("user", wish(r, claim.entity))] if start == "assistant" and r.random() < 0.5 else []
    after = [say(start, acknowledge(r))] if r.random() < 0.6 else []
    return facts_of(r, (*before, say(start, asked), say(other, capital(replied)), *after), (claim,))


def correct(r: random.Random) -> Scene:
    """A value is told and changed later; only the newest is marked and asked for."""
    old = draw_claim(r)
    new = draw_claim(r, entity=old.entity, attribute=old.attribute, avoid=(old.value,))
    noun = f"[[{new.attribute.noun}]]"
    value = f"[[{new.value}]]"
    fixed = r.choice(
        (
            f"Correction: {new.clause(r)}.",
            f"I was wrong about the [[{new.entity}]]. The {noun} is {value}.",
            f"Scrap that, {new.clause(r)}.",
            f"Forget {old.value}; for the [[{new.entity}]] it is {value} as {noun} now.",
            f"Sorry, not {old.value}. {capital(new.clause(r))}.",
            f"Change of plan: {new.clause(r)}, {old.value} is history.",
            f"Update on the [[{new.entity}]]: {noun} {value} instead of {old.value}.",
            f"They moved it again. {capital(new.clause(r))}.",
            f"Please replace {old.value} by {value} as {noun} of the [[{new.entity}]].",
            f"{old.value} did not work out for the [[{new.entity}]], so {noun} {value}.",
            f"I misread my own note: {new.clause(r)}.",
            f"Actually {value}, not {old.value}, for the {noun} of the [[{new.entity}]].",
        )
    )
    first = capital(bare(old.clause(r))) + "."
    turns = [say("user", first + (" " + idle(r, 1) if r.random() < 0.3 else "")), say("assistant", acknowledge(r))]
    if r.random() < 0.35:
        turns += [say("user", idle(r, 2)), say("assistant", plan(r))]
    turns.append(say("user", capital(fixed)))
    if r.random() < 0.7:
        turns.append(say("assistant", r.choice((acknowledge(r), repeat(r, new)))))
    return facts_of(r, turns, (new,))


def sheet(r: random.Random) -> Scene:
    """A short sheet of one thing, with two or three things told of it."""
    field = r.choice(FIELDS)
    entity = draw_entity(r, field)
    claims: list[Claim] = []
    for _ in range(r.choice((2, 3))):
        taken = [c.value for c in claims] + [c.attribute.noun for c in claims]
        claims.append(draw_claim(r, field, entity=entity, avoid=taken))
    form = r.randrange(6)
    rows = [(f"[[{c.attribute.noun}]]", f"[[{c.value}]]") for c in claims]
    head = f"[[{entity}]]"
    if form == 0:
        text = f"{capital(head)}:\n" + "\n".join(f"- {a}: {v}" for a, v in rows)
    elif form == 1:
        text = f"What we know of the {head}: " + "; ".join(f"{a} {v}" for a, v in rows) + "."
    elif form == 2:
        text = f"{head}\n" + "\n".join(f"{a} = {v}" for a, v in rows)
    elif form == 3:
        text = f"| {head} | |\n| --- | --- |\n" + "\n".join(f"| {a} | {v} |" for a, v in rows)
    elif form == 4:
        text = f"For the {head} I have " + " and ".join(f"{v} as {a}" for a, v in rows) + "."
    else:
        text = f"The {head} again. " + " ".join(f"{capital(a)}? {capital(v)}." for a, v in rows)
    role = r.choice(("user", "user", "assistant"))
    turns = [say("user", wish(r, entity))] if role == "assistant" else []
    turns.append(say(role, r.choice(("", idle(r, 1) + "\n")) + text))
    if role == "user" and r.random() < 0.8:
        turns.append(say("assistant", acknowledge(r)))
    return facts_of(r, turns, claims)


def weigh(r: random.Random) -> Scene:
    """Two or three values are weighed; the one that is taken is marked where the choice is told."""
    chosen = draw_claim(r)
    while not chosen.short:
        chosen = draw_claim(r)
    others: list[str] = []
    while len(others) < r.choice((1, 2)):
        value = VALUES[chosen.attribute.value](r)
        if value != chosen.value and value not in others:
            others.append(value)
    options = [chosen.value, *others]
    r.shuffle(options)
    noun = chosen.attribute.noun
    listed = f"{', '.join(options[:-1])} {r.choice(('or', 'or rather', 'or maybe'))} {options[-1]}"
    start = r.choice(
        (
            f"For the {noun} of the {chosen.entity} we could take {listed}. What do you think?",
            f"{capital(listed)}, that is the question with the {chosen.entity} and its {noun}.",
            f"I wavered between {listed} as {noun} for the {chosen.entity}.",
            f"There is talk of {listed} for the {chosen.entity} ({noun}).",
        )
    )
    lost = r.choice(others)
    against = choose(
        r, "<{lost} is out|I ruled out {lost}|not {lost}>, <because|since> {reason}".replace("{lost}", lost)
    )
    final = r.choice(
        (
            f"We take [[{chosen.value}]] as [[{noun}]] for the [[{chosen.entity}]]",
            f"Then [[{chosen.value}]] it is, the [[{noun}]] of the [[{chosen.entity}]]",
            f"{capital(chosen.clause(r))}",
            f"The [[{chosen.entity}]] gets [[{chosen.value}]] for [[{noun}]], that is the decision",
            f"My vote for the [[{chosen.entity}]]: [[{chosen.value}]] ([[{noun}]])",
        )
    )
    decided = f"{final}. {capital(against)}." if r.random() < 0.6 else final + "."
    order = ("user", "assistant", "user", "assistant")
    texts = [start, plan(r), decided, acknowledge(r)]
    if r.random() < 0.4:
        texts = [start, decided]
    return facts_of(r, [say(role, text) for role, text in zip(order, texts, strict=False)], (chosen,))


def quote(r: random.Random) -> Scene:
    """Somebody's words are passed on: a message, a voice note, a sign, a letter."""
    claim = draw_claim(r)
    said = capital(claim.clause(r)) + "."
    who = r.choice((VALUES["role"](r), VALUES["group"](r)))
    form = r.choice(
        (
            f'{who} wrote: "{said}"',
            f'"{said}" - that is what {who} told me.',
            f"Forwarded from {who}:\n> {idle(r, 1)}\n> {said}",
            f'Voice message of {who}, as text: "{idle(r, 1)} {said} {idle(r, 1)}"',
            f"On the door hangs a sign: {said}",
            f"{who} on the phone: {idle(r, 1)} {said}",
            f'The letter says, and I quote, "{said}"',
            f"[{VALUES['clock'](r)}] {who[4:]}: {said}",
            f'I overheard {who} saying "{said}" and it is true.',
            f'From the group chat:\n"{idle(r, 1)}"\n"{said}"\n"{idle(r, 1)}"',
        )
    )
    turns = [say("user", capital(form)), say("assistant", answer(r, claim))]
    return facts_of(r, turns, (claim,))


def hide(r: random.Random) -> Scene:
    """A claim in the middle of a long message about something else."""
    claim = draw_claim(r)
    other = draw_entity(r, r.choice(FIELDS))
    aside = claim.clause(r)
    form = r.choice(
        (
            f"{idle(r, 2)} ({capital(aside)}.) {idle(r, 2)}",
            f"{wish(r, other)} {idle(r, 2)} {state(r, claim)} {idle(r, 1)}",
            f"{idle(r, 1)} {state(r, claim)} {wish(r, other)}",
            f"{idle(r, 2)} P.S. {capital(aside)}.",
            f"{plan(r)} {capital(aside)}. {idle(r, 1)}",
            f"{wish(r, other)} Keep in mind while doing it: {aside}. {idle(r, 1)}",
        )
    )
    if r.random() < 0.25:
        return facts_of(r, (say("user", wish(r, claim.entity)), say("assistant", form)), (claim,))
    return facts_of(r, (say("user", form), say("assistant", r.choice((plan(r), acknowledge(r))))), (claim,))


def reckon(r: random.Random) -> Scene:
    """A sum or a product is worked out; the result, not its parts, is what counts."""
    thing = draw_entity(r, r.choice(FIELDS))
    count, each = r.randrange(3, 40), r.randrange(2, 60)
    extra = r.randrange(5, 90)
    total = count * each + extra
    unit = r.choice(("euros", "crowns", "minutes", "metres", "kg", "sheets", "litres", "points", "tiles", "francs"))
    answer_text = f"{total} {unit}"
    aim = r.choice(("total", "sum", "overall need", "grand total", "final figure", "demand"))
    work = r.choice(
        (
            f"{count} x {each} = {count * each}, plus {extra} for the rest, so the [[{aim}]] for the [[{thing}]] is "
            f"[[{answer_text}]].",
            f"{count} times {each} makes {count * each}; with {extra} on top the [[{thing}]] has [[{answer_text}]] as "
            f"[[{aim}]].",
            f"[[{thing}]]: {each} each, {count} of them, {extra} extra. [[{aim}]]: [[{answer_text}]].",
            f"I get [[{answer_text}]] as [[{aim}]] for the [[{thing}]] ({count} * {each} + {extra}).",
        )
    )
    asks = (
        f"What is the {aim} for the {thing}?",
        f"What did the calculation for the {thing} give?",
        f"How much did we work out for the {thing}?",
        f"Which figure came out for the {thing}?",
    )
    turns = [
        say("user", wish(r, thing) + f" There are {count} at {each} {unit} each."),
        say("assistant", capital(work)),
    ]
    if r.random() < 0.5:
        turns.append(say("user", acknowledge(r)))
    return scene(turns, (Fact(asks, answer_text, "sum"),))


TOLD = (mention, mention, mention_two, rivals, rivals, ask_back, correct, sheet, weigh, quote, hide, hide, reckon)
