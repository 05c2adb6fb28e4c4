"""Scenes of talk in which nothing is told that anybody would ask for later, full of numbers and names all the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from remory.training.generator.talk_forms import acknowledge, idle, plan, wish
from remory.training.generator.talk_topics import FIELDS, capital, choose, draw_entity
from remory.training.generator.talk_values import VALUES, listed
from remory.training.sessions import Scene, say, scene

_SUBJECTS = listed("receipt,order mail,old list,screen,notice,statement,log,app,photo,slip,scan,inbox,tracker,feed")
_REQUESTS = (
    "<Can you|Please> <tidy this up|fix the spelling|sort this|check the sums|make it nicer>:",
    "<Is there anything odd here|Anything I missed|Does that look right>?",
    "<What do you make of this|Here is what I see|That is all it shows|This came up>:",
    "<Just for fun|Only as an example|To show the format|No need to keep this>:",
    "<I pasted the whole thing, sorry|The {subject} says|From the {subject}|Copied out of the {subject}>:",
)
_REACTIONS = (
    "<Nothing odd there|That looks fine|All in order|The sums are right>. <You can throw it away|No action is needed|"
    "It has no bearing on the plan>.",
    "<I tidied it up|I sorted it|Done>, <only the order changed|two commas moved|it reads better now>.",
    "<That is the usual output|It is only noise|Such lines come every day>; <we can go on|nothing to do|ignore it>.",
    "<Funny|Nice|Charming|Ha>! <But back to work|Made my day|I have no comment>.",
    "<Here it is, cleaned up|As you wish>: <one line less|shorter by a third|in alphabetical order>.",
)
_JOKES = (
    "Why did the {animal} <carry|bring> a {tool}? <Because the {instrument} was out of tune|To open the {ingredient}|"
    "It had heard of {weather}>.",
    "A {role} and a {animal} <meet in|walk into> {room}. <Says one|Says the other>: <is this seat taken|after you|mind "
    "the {tool}>.",
    "<Riddle|Guess>: it has {number} legs, sleeps in {room} and smells of {plant}. <No idea|A broken chair|Guess "
    "again>.",
    "My {instrument} and I <have an agreement|are not speaking>: it <sulks|rests>, I <cook {food}|blame the "
    "{weather}>.",
    "If {plant} could talk, it would <ask for {ingredient}|complain about {weather}|want {celsius} and a blanket>.",
)
_VERSES = (
    "<The|A|No> {animal} in the <rain|snow|lane>\n<sings|waits|hums> <again and again|of no gain|down the drain>,\n"
    "<while {plant} and {ingredient}|while {colour} hats in a row|till the {instrument}>\n<go slow|do not "
    "know|say hello>.",
    "{colour} is the <hill|mill|sill>,\n<quiet|empty|cold> the <day|bay|way>,\na {animal} <stands still|has its will>\n"
    "<and looks the other way|far away|come what may>.",
)
_KNOWLEDGE = (
    "<In general|As a rule|By and large>, {material} <swells|bends|holds colour> <less|more> than {material}, and a "
    "difference of {percent} <is nothing to worry about|can be seen>.",
    "A {animal} <can live in|likes> <hedges|old walls|reed> and <eats|prefers> <beetles|seeds|worms>; <some weigh|a "
    "big one weighs> {weight}.",
    "The {instrument} <is often heard with|blends with> the {instrument}; <it came up|it was common> <centuries ago|in "
    "courts|in villages>.",
    "{plant} <likes|wants|stands> <sun|shade|wet feet>, {plant} <does not|less so>. <Many sow it|It is sown> in "
    "{month}.",
    "A word on {ingredient}: <it keeps|it stores well> <in the dark|dry>, <people once paid dearly for it|and it loses "
    "its smell in {duration}>.",
    "<Think of it like|Picture> a {vehicle}: <it takes|you have> {number} seats, <and someone always stands|but the "
    "weight sits low>, so <curves feel odd|it sways>.",
    "<Imagine|Suppose> someone pays {money} and gets {percent} back; <that would be|this makes> a nice example, <no "
    "more|but nothing of ours>.",
    "<Historians say|One reads> the town of {town} <burned|moved|flooded> <twice|{number} times>, <which may be "
    "legend|depending on whom one asks>.",
)
_LETTERS = (
    "<Dear|Hello> {group},\n\n<thank you for|we enjoyed> the <visit|talk|letter>. <We hope|It would be nice if> you "
    "<come again|write again|bring the {instrument}> <{season}|one day>.\n\n<Kind regards|Yours|Cheers>",
    "<To|For> {role}:\n<I am sorry for|Please excuse> the <noise|delay|mess> <last {weekday}|the other day>. <It will "
    "not happen again|We had {weather}|The {animal} was loose>.\n<Regards|Best wishes>",
    "<Subject|Re>: <some thoughts|your question|thanks>\n\n<We talked it over|I slept on it> and <see no "
    "hurry|like the "
    "idea|have mixed feelings>. <More when we meet|Let us talk|I will call>.",
)


def _react(r: random.Random) -> str:
    return choose(r, r.choice(_REACTIONS))


def _request(r: random.Random) -> str:
    return choose(r, r.choice(_REQUESTS).replace("{subject}", r.choice(_SUBJECTS)))


def _value(r: random.Random, *names: str) -> str:
    return VALUES[r.choice(names)](r)


def _paste(r: random.Random, lines: Sequence[str]) -> Scene:
    """Lines pasted by the user, or returned by a tool, with a reaction."""
    body = "\n".join(lines)
    if r.random() < 0.25:
        body = f"```\n{body}\n```"
    if r.random() < 0.2:
        calls = say(
            "assistant",
            choose(
                r, "<Let me look|I fetch it|One moment|I open the {subject}>.".replace("{subject}", r.choice(_SUBJECTS))
            ),
        )
        return scene((calls, say("tool", body), say("assistant", _react(r))))
    first, after = _request(r) + "\n" + body, [say("assistant", _react(r))]
    return scene((say("user", first), *(after if r.random() < 0.85 else [])))


def chat(r: random.Random) -> Scene:
    """Small talk, with an answer."""
    turns = [say("user", idle(r)), say("assistant", r.choice((acknowledge, plan))(r))]
    if r.random() < 0.3:
        turns += [say("user", idle(r, 1)), say("assistant", acknowledge(r))]
    return scene(turns)


def advise(r: random.Random) -> Scene:
    """A request and general advice."""
    thing = draw_entity(r, r.choice(FIELDS))
    asked = wish(r, thing) + (" " + idle(r, 1) if r.random() < 0.5 else "")
    return scene((say("user", asked), say("assistant", plan(r) + " " + plan(r))))


def wonder(r: random.Random) -> Scene:
    """A question that stays open: nobody knows the value."""
    field = r.choice(FIELDS)
    noun, thing = r.choice(field.attributes).noun, draw_entity(r, field)
    asked = choose(
        r,
        f"<<Do we know|Any idea about|Has anybody said> <anything on |>the {noun} <of|for> the {thing}?"
        f"|I still miss the {noun} of the {thing}.|Nobody has told me the {noun} of the {thing} so far.>",
    )
    reply = choose(
        r,
        "<No, that is still open|Not yet|Nothing I could rely on|That was left open>. <I would wait for|Let us "
        "ask|I can "
        "write to> {role}.",
    )
    return scene((say("user", asked), say("assistant", reply)))


def guess(r: random.Random) -> Scene:
    """Values are guessed and dropped."""
    field = r.choice(FIELDS)
    attribute, thing = r.choice(field.attributes), draw_entity(r, field)
    values = [VALUES[attribute.value](r) for _ in range(3)]
    text = choose(
        r,
        f"<I had thought of|One could imagine|Some proposed> {values[0]} <or|and even> {values[1]} for the {thing}, "
        f"<but that is off the table|but nothing is decided|just thinking aloud>. <Maybe {values[2]}, maybe not|Let us "
        "leave it open|We will see>.",
    )
    return scene((say("user", text), say("assistant", r.choice((plan, acknowledge))(r))))


def receipt(r: random.Random) -> Scene:
    """A receipt or a statement with sums that do not matter."""
    lines = [choose(r, "<Shop|Store|Market> {pseudo}, {address}")] if r.random() < 0.6 else []
    for _ in range(r.randrange(3, 7)):
        lines.append(
            choose(r, "<<{number} x |>{ingredient}|{date} {pseudo}|{plant} {weight}>") + f"  {_value(r, 'money')}"
        )
    lines.append(choose(r, "<TOTAL|Sum|Balance> {money}<, paid by card| (cash)|>"))
    return _paste(r, lines)


def table(r: random.Random) -> Scene:
    """A table of results in which no row is ours."""
    names = ("number", "percent", "score", "technical", "duration", "weight", "code", "money")
    columns = r.sample(names, r.randrange(2, 4))
    bar = r.choice((" | ", "\t", ", ", "; ", "  "))
    rows = [bar.join((r.choice(("name", "item", "row", "who")), *columns))]
    for _ in range(r.randrange(3, 6)):
        rows.append(
            bar.join((_value(r, "pseudo", "animal", "plant", "colour", "town"), *(VALUES[c](r) for c in columns)))
        )
    return _paste(r, rows)


def log(r: random.Random) -> Scene:
    """A log of a device or an app."""
    verbs = listed("synced,checked,opened,skipped,retried,queued,rotated,read,closed,saved,sent,woke,polled")
    lines = []
    for _ in range(r.randrange(3, 7)):
        what = _value(r, "code", "technical", "percent", "duration", "pseudo", "position", "number")
        stamp = f"{r.randrange(24):02}:{r.randrange(60):02}:{r.randrange(60):02}"
        lines.append(
            r.choice((f"{stamp} {r.choice(verbs)} {what}", f"[{stamp}] {what} {r.choice(verbs)}", f"{stamp} - {what}"))
        )
    return _paste(r, lines)


def joke(r: random.Random) -> Scene:
    """A joke or a riddle and a reaction."""
    text = capital(choose(r, r.choice(_JOKES)).replace("a the ", "a ").replace("A the ", "A "))
    asked = choose(r, "<Tell me a joke|Cheer me up|Something light, please|A break, please>.")
    if r.random() < 0.5:
        return scene((say("user", asked), say("assistant", text)))
    return scene((say("user", text), say("assistant", _react(r))))


def verse(r: random.Random) -> Scene:
    """A little verse that was asked for."""
    asked = choose(
        r, "<A short poem|Some lines|A rhyme|A verse> <about a {animal}|for a card|with {colour} in it>, please."
    )
    return scene((say("user", asked), say("assistant", capital(choose(r, r.choice(_VERSES))))))


def lecture(r: random.Random) -> Scene:
    """General knowledge, told by the assistant."""
    asked = choose(r, "<What about|Tell me something on|Is it true what they say of|Explain> WORD?")
    asked = asked.replace("WORD", _value(r, "material", "animal", "plant", "instrument", "ingredient", "town"))
    said = " ".join(capital(choose(r, text)) for text in r.sample(_KNOWLEDGE, r.randrange(1, 4)))
    return scene((say("user", asked), say("assistant", said)))


def letter(r: random.Random) -> Scene:
    """A draft of a letter without anything to keep."""
    asked = choose(
        r, "<Draft|Write|Give me> <a short|a friendly|a neutral> <mail|letter|note>, <please|quickly|for a card>."
    )
    return scene((say("user", asked), say("assistant", choose(r, r.choice(_LETTERS)))))


def ideas(r: random.Random) -> Scene:
    """A list of ideas, of names or of things, none of them chosen."""
    name = r.choice(("pseudo", "title", "colour", "plant", "food", "animal", "tool", "instrument", "town", "material"))
    mark = r.choice(("- ", "* ", "1. ", "", "+ "))
    items = [VALUES[name](r) for _ in range(r.randrange(4, 8))]
    shown = ", ".join(items) if mark == "" else "\n".join(mark + item for item in items)
    asked = choose(r, "<Some|A few|More> <ideas|examples|names|options>, please<, no matter which|, anything goes|>.")
    turns = [say("user", asked), say("assistant", shown)]
    if r.random() < 0.5:
        turns.append(
            say("user", choose(r, "<None of these|Hm, none convinces me|I will sleep on it|Not now|All too long>."))
        )
    return scene(turns)


def sums(r: random.Random) -> Scene:
    """Arithmetic for its own sake."""
    a, b, c = r.randrange(3, 99), r.randrange(3, 99), r.randrange(2, 20)
    asked, worked = r.choice(
        (
            (f"What is {a} times {b}?", f"{a} times {b} is {a * b}."),
            (f"{a} + {b} - {c}?", f"{a + b - c}, since {a} + {b} is {a + b}."),
            (f"Half of {a * 2}, plus {c}?", f"{a + c}."),
            (f"{a} in percent of {a + b}?", f"About {100 * a // (a + b)}, as {a} / {a + b} is {a / (a + b):.3f}."),
        )
    )
    return scene((say("user", asked), say("assistant", worked), say("user", acknowledge(r))))


def moves(r: random.Random) -> Scene:
    """Moves of a game, chords of a song, a row of knitting or a set of exercises."""
    kind = r.randrange(4)
    if kind == 0:
        line = " ".join(
            f"{i + 1}. {r.choice('abcdefgh')}{r.randrange(3, 6)} "
            f"{r.choice('NBRQ')}{r.choice('abcdefgh')}{r.randrange(4, 7)}"
            for i in range(r.randrange(4, 9))
        )
    elif kind == 1:
        line = " | ".join(
            " ".join(r.choice(listed("Am C G Dm F E7 Bb D A Gm7", " ")) for _ in range(4)) for _ in range(4)
        )
    elif kind == 2:
        line = ", ".join(
            f"{r.choice(('k', 'p', 'sl', 'yo', 'k2tog', 'ssk'))}{r.randrange(1, 12)}" for _ in range(r.randrange(8, 16))
        )
    else:
        line = "\n".join(
            f"{r.choice(('squat', 'row', 'press', 'plank', 'lunge', 'curl'))} "
            f"{r.randrange(2, 6)}x{r.randrange(4, 20)} @{r.randrange(10, 90)}"
            for _ in range(r.randrange(3, 6))
        )
    return _paste(r, [line])


def status(r: random.Random) -> Scene:
    """Automatic messages: parcels, weather, alarms, offers."""
    templates = (
        "<Your parcel|Shipment> {code} <left|reached> <the hub|{town}> <at {clock}|on {date}>.",
        "<Forecast|Outlook> for {town}: {weather}, {celsius}, wind {technical}, <later {weather}|clearing up>.",
        "<Offer|Only today|Flash sale>: {ingredient} {percent} off, <code {code}|at {pseudo}|from {money}>.",
        "<Backup|Sync|Upload> <finished|done> in {duration}, {number} items, {number} skipped.",
        "<Battery|Signal|Disk> at {percent}. <Charge soon|Ignore|OK>.",
        "<Missed call|Voicemail> from {extension}, {clock}<, no message|>.",
        "<News|Ticker>: {town} beats {town} {score}<, {weather} at the start|>.",
        "<You walked|Today> {number} steps, {duration} <outside|active>, goal {percent}.",
    )
    return _paste(r, [capital(choose(r, text)) for text in r.sample(templates, r.randrange(2, 5))])


def listing(r: random.Random) -> Scene:
    """A listing of pictures, recordings or scans on a disk."""
    end = r.choice(("jpg", "mp3", "pdf", "mov", "txt", "ods", "png", "docx", "heic", "wav"))
    lines = []
    for _ in range(r.randrange(4, 8)):
        stem = r.choice(
            (
                f"IMG_{r.randrange(1000, 9999)}",
                f"scan-{r.randrange(1, 300):03}",
                _value(r, "plant", "animal") + f"_{r.randrange(9)}",
            )
        )
        lines.append(f"{stem}.{end}  {r.randrange(12, 9000)} kB  {VALUES['date'](r)}")
    return _paste(r, lines)


def quiz(r: random.Random) -> Scene:
    """A question of a quiz that is made up on the spot."""
    word = _value(r, "animal", "plant", "instrument", "material")
    number = r.randrange(3, 500)
    asked = choose(r, f"<Quiz me|Test me|One quiz question>, <something with a {word}|anything|easy please>.")
    said = f"How many letters has the word {word}? a) {len(word) + 2} b) {len(word)} c) {number}"
    return scene(
        (say("user", asked), say("assistant", said), say("user", "b, obviously."), say("assistant", "Correct!"))
    )


def translate(r: random.Random) -> Scene:
    """Rewording of a sentence, of which only the wording matters."""
    text = idle(r, 1)
    asked = choose(r, "<Shorter|More polite|Simpler|Rephrase>, please: ") + f'"{text}"'
    return scene((say("user", asked), say("assistant", choose(r, "<Perhaps|How about|Try>: ") + f'"{idle(r, 1)}"')))


def ramble(r: random.Random) -> Scene:
    """A long message of which nothing is needed."""
    return scene((say("user", idle(r, r.randrange(4, 8))), say("assistant", acknowledge(r))))


def formula(r: random.Random) -> Scene:
    """Formulas of a sheet or a few lines of a script for a budget."""
    a, b = r.choice("ABCDEFGH"), r.randrange(2, 40)
    lines = [
        f"=SUM({a}{b}:{a}{b + r.randrange(3, 30)})",
        f'=IF({a}{b}>{r.randrange(5, 500)};"{_value(r, "setting")}";"{_value(r, "colour")}")',
        f"=ROUND({a}{b}*{r.randrange(1, 99) / 100};2)",
        f"for row in rows[{r.randrange(1, 9)}:]: total += row['{_value(r, 'plant')}'] * {r.randrange(2, 30)}",
        f"{_value(r, 'animal')} = {r.randrange(2, 900)}  # only to try it",
        f"print('{_value(r, 'food')}', {r.randrange(10, 99)} / {r.randrange(2, 9)})",
    ]
    return _paste(r, r.sample(lines, r.randrange(2, 4)))


IDLE: tuple[Callable[[random.Random], Scene], ...] = (
    chat,
    chat,
    advise,
    wonder,
    guess,
    receipt,
    table,
    log,
    joke,
    verse,
    lecture,
    letter,
    ideas,
    sums,
    moves,
    status,
    listing,
    quiz,
    translate,
    ramble,
    formula,
)
