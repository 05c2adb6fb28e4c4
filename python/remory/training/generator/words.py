"""Entities and values of generated sessions. Each function draws one from the random source that it is given.

`f(r: random.Random) -> str` throughout, all in ASCII; the same state of `r` gives the same word.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from remory.training.generator import lexicon

Maker = Callable[[random.Random], str]
_T = TypeVar("_T")

_ONSETS = lexicon.split_words("b br c cl d dr f fl g gr h j k kr l m n p pl pr qu r s sh sk st t th tr v w z")
_VOWELS = lexicon.split_words("a e i o u a e i o ai au ea ee io oa")
_CODAS = ["", "", "", "n", "l", "r", "s", "m", "x", "nd", "rk", "lt", "st", "th", "ck"]


def pick(r: random.Random, options: Sequence[_T]) -> _T:
    """One of a non-empty sequence."""
    return options[int(r.random() * len(options))]


def chance(r: random.Random, probability: float) -> bool:
    """True with the given probability."""
    return r.random() < probability


def capital(text: str) -> str:
    """The text with its first letter large, the rest as it is."""
    return text[:1].upper() + text[1:]


class Cast(random.Random):
    """A random source that remembers some names, so that the same services come up again in a session."""

    def __init__(self, seed: int, names: Sequence[str] = ()) -> None:
        super().__init__(seed)
        self.names = tuple(names)


# --- names -----------------------------------------------------------------------------------------------------------


def pseudo_word(r: random.Random) -> str:
    """An invented word of two or three syllables, in small letters: "orvada", "skeltin"."""
    syllables = r.randint(2, 3)
    word = "".join(pick(r, _ONSETS) + pick(r, _VOWELS) for _ in range(syllables)) + pick(r, _CODAS)
    return word[1:] if chance(r, 0.15) and word[1] in "aeiou" else word


def pseudo_name(r: random.Random) -> str:
    """An invented word with a capital: "Orvada"."""
    return pseudo_word(r).capitalize()


def service(r: random.Random) -> str:
    """A name of a service or program: "amber-relay", "kestrel", "orvada", "ledgerhub"; of a Cast, at times its own."""
    if isinstance(r, Cast) and r.names and chance(r, 0.4):
        return pick(r, r.names)
    form = r.random()
    if form < 0.3:
        return f"{pick(r, lexicon.SERVICE_HEADS)}-{pick(r, lexicon.SERVICE_TAILS)}"
    if form < 0.5:
        return pick(r, lexicon.SERVICE_HEADS)
    if form < 0.7:
        return pseudo_word(r)
    if form < 0.85:
        return f"{pick(r, lexicon.CODE_WORDS)}-{pick(r, lexicon.SERVICE_TAILS)}"
    if form < 0.93:
        return f"{pseudo_word(r)}-{pick(r, lexicon.SERVICE_TAILS)}"
    return pick(r, lexicon.SERVICE_HEADS) + pick(r, ("d", "db", "ctl", "hub", "2", "-v2", "kit", "base", "mq"))


def product(r: random.Random) -> str:
    """An invented product or project name with a capital: "Heron", "Velmora", "Project Larch", "Copper 4"."""
    form = r.random()
    if form < 0.4:
        return pseudo_name(r)
    if form < 0.7:
        return pick(r, lexicon.SERVICE_HEADS).capitalize()
    if form < 0.85:
        return f"Project {pick(r, lexicon.SERVICE_HEADS).capitalize()}"
    return f"{pick(r, lexicon.SERVICE_HEADS).capitalize()} {r.randint(2, 9)}"


def noun(r: random.Random) -> str:
    """An English noun for a thing or place: "kettle"."""
    return pick(r, lexicon.NOUNS)


def adjective(r: random.Random) -> str:
    """An English adjective: "narrow"."""
    return pick(r, lexicon.ADJECTIVES)


def thing(r: random.Random) -> str:
    """A thing without article: "kettle", "narrow kettle", "harbour crane"."""
    form = r.random()
    if form < 0.35:
        return noun(r)
    if form < 0.85:
        return f"{adjective(r)} {noun(r)}"
    first, second = r.sample(range(len(lexicon.NOUNS)), 2)
    return f"{lexicon.NOUNS[first]} {lexicon.NOUNS[second]}"


def team(r: random.Random) -> str:
    """A team with its article: "the billing team"."""
    return pick(r, lexicon.TEAMS)


def role(r: random.Random) -> str:
    """A role with its article: "the night porter"."""
    return pick(r, lexicon.ROLES)


def owner(r: random.Random) -> str:
    """A team or a role, with its article."""
    return team(r) if chance(r, 0.55) else role(r)


def place(r: random.Random) -> str:
    """An invented place: "Alderwick", "Penmoor"."""
    return pick(r, lexicon.PLACE_STARTS) + pick(r, lexicon.PLACE_ENDS)


def spot(r: random.Random) -> str:
    """A spot where a thing may lie or be held, with its article: "the left drawer"."""
    return pick(r, lexicon.SPOTS)


def room(r: random.Random) -> str:
    """A room by its number or name: "room 214", "B-17", "hall 3"."""
    number = str(r.randint(1, 9) * 100 + r.randint(1, 48))
    return pick(r, (f"room {number}", f"{pick(r, 'ABCDEFGH')}-{r.randint(2, 48)}", f"hall {r.randint(1, 9)}", number))


def activity(r: random.Random) -> str:
    """Something that takes place, with its article: "the stock count", "the kettle repair"."""
    if chance(r, 0.35):
        return f"the {noun(r)} {pick(r, lexicon.OCCASIONS)}"
    return pick(r, lexicon.ACTIVITIES)


def reason(r: random.Random) -> str:
    """A short clause that gives a reason: "the cable was too short"."""
    if chance(r, 0.55):
        subject = f"the {pick(r, (thing, code_word, noun, service))(r)}"
        return f"{subject} {pick(r, lexicon.TROUBLES)}"
    return pick(r, lexicon.REASONS)


def colour(r: random.Random) -> str:
    return pick(r, lexicon.COLOURS)


def material(r: random.Random) -> str:
    return pick(r, lexicon.MATERIALS)


def tool(r: random.Random) -> str:
    """The name of a well-known program: "rsync"."""
    return pick(r, lexicon.TOOLS)


def error(r: random.Random) -> str:
    """The name of an error: "ECONNREFUSED"."""
    return pick(r, lexicon.ERRORS)


def unit(r: random.Random) -> str:
    return pick(r, lexicon.UNITS)


# --- identifiers -----------------------------------------------------------------------------------------------------


def code_word(r: random.Random) -> str:
    """One word as names in code are made of."""
    return pick(r, lexicon.CODE_WORDS)


def _code_words(r: random.Random) -> list[str]:
    return [code_word(r) for _ in range(r.choice((1, 1, 1, 2)))]


def snake(r: random.Random) -> str:
    """An identifier of two or three words: "retry_backoff"."""
    return f"{code_word(r)}_{'_'.join(_code_words(r))}"


def camel(r: random.Random) -> str:
    """An identifier: "retryBackoff"."""
    return code_word(r) + "".join(word.capitalize() for word in _code_words(r))


def pascal(r: random.Random) -> str:
    """A name of a class: "RetryBackoff"."""
    return capital(camel(r))


def kebab(r: random.Random) -> str:
    """An identifier: "retry-backoff"."""
    return snake(r).replace("_", "-")


def constant(r: random.Random) -> str:
    """A name of a constant or an environment variable: "RETRY_BACKOFF"."""
    return snake(r).upper()


def identifier(r: random.Random) -> str:
    """A name in code in any of the usual notations."""
    return pick(r, (snake, snake, camel, pascal, kebab, constant))(r)


def function_name(r: random.Random) -> str:
    """A name of a function with or without brackets: "drain_queue", "drainQueue()"."""
    return pick(r, (snake, camel))(r) + ("()" if chance(r, 0.3) else "")


def flag(r: random.Random) -> str:
    """A switch of a command line: "--retry-limit"."""
    return f"--{kebab(r)}"


def branch(r: random.Random) -> str:
    """A branch of a repository: "fix/retry-backoff"."""
    head = pick(r, ("fix", "feat", "feature", "chore", "wip", "release", "hotfix", "spike", "topic"))
    return f"{head}/{kebab(r)}"


def file_name(r: random.Random) -> str:
    """A file without folders: "retry_backoff.py"."""
    return f"{pick(r, (snake, kebab, code_word, code_word))(r)}.{pick(r, lexicon.EXTENSIONS)}"


def folder(r: random.Random) -> str:
    """An absolute or relative folder without a slash at its end: "/var/spool/retry", "src/api"."""
    depth = r.choice((1, 2, 2, 2, 3))
    makers = (code_word, code_word, code_word, snake, kebab)
    parts = [pick(r, lexicon.FOLDERS), *(pick(r, makers)(r) for _ in range(depth - 1))]
    return ("/" if chance(r, 0.5) else "") + "/".join(parts)


def path(r: random.Random) -> str:
    """A file with its folders: "/etc/relay/retry.toml"."""
    head = folder(r) if chance(r, 0.75) else pick(r, lexicon.FOLDERS)
    return f"{head}/{file_name(r)}"


def host(r: random.Random) -> str:
    """A host name: "db-07.internal.example", "kestrel03"."""
    head = pick(r, (code_word, pseudo_word, lambda q: pick(q, lexicon.SERVICE_HEADS)))(r)
    form = r.random()
    if form < 0.35:
        return f"{head}-{r.randint(1, 24):02d}.{pick(r, lexicon.DOMAINS)}"
    if form < 0.6:
        return f"{head}{r.randint(1, 19):02d}"
    if form < 0.85:
        return f"{head}.{pick(r, lexicon.DOMAINS)}"
    return f"{head}-{pick(r, 'abcdef')}{r.randint(1, 9)}"


def address(r: random.Random) -> str:
    """A private network address of four numbers: "10.4.17.203"."""
    start = pick(r, ("10.{}", "172.{}", "192.168")).format(r.randint(16, 31))
    return f"{start}.{r.randint(0, 254)}.{r.randint(2, 250)}"


def url(r: random.Random) -> str:
    """An address on the web: "https://relay.example.org/retry"."""
    return f"https://{host(r)}/{pick(r, (code_word, kebab))(r)}"


def route(r: random.Random) -> str:
    """A path of an interface: "/v2/invoices/batch"."""
    head = pick(r, ("/api", "/v1", "/v2", "/v3", "/internal", "", ""))
    return f"{head}/{code_word(r)}s/{code_word(r)}" if chance(r, 0.5) else f"{head}/{kebab(r)}"


def hexadecimal(r: random.Random, length: int) -> str:
    """Digits of the base 16 in small letters."""
    return "".join(pick(r, "0123456789abcdef") for _ in range(length))


def hexadecimal_short(r: random.Random) -> str:
    """Four to twelve hexadecimal digits."""
    return hexadecimal(r, r.randint(4, 12))


def commit(r: random.Random) -> str:
    """A short hash: "9f3c2ab"."""
    return hexadecimal(r, r.choice((7, 7, 8, 10)))


def code(r: random.Random) -> str:
    """An id of letters and digits: "KX-4471", "7Q2M9", "inv-20381", "R19/4"."""
    letters = "ABCDEFGHJKLMNPQRSTUVWXYZ"
    two = pick(r, letters) + pick(r, letters)
    number = r.randint(11, 99999)
    return pick(
        r,
        (
            f"{two}-{number}",
            f"{two}{number}",
            f"{pick(r, letters)}{r.randint(2, 99)}/{r.randint(1, 9)}",
            "".join(pick(r, letters + "23456789") for _ in range(r.randint(4, 7))) + str(r.randint(2, 9)),
            f"{code_word(r)[:3]}-{number}",
            f"{two}-{r.randint(10, 99)}-{pick(r, letters)}",
            f"{number}-{pick(r, letters)}",
        ),
    )


def ticket(r: random.Random) -> str:
    """A ticket: "OPS-1482", "#731", "T-90"."""
    head = pick(r, ("OPS", "BUG", "REQ", "INC", "CHG", "TASK", "PLAT", "DATA", "QA", "WEB", "FIN"))
    return pick(r, (f"{head}-{r.randint(12, 9800)}", f"#{r.randint(12, 4800)}", f"{head[0]}-{r.randint(10, 990)}"))


def version(r: random.Random) -> str:
    """A version: "2.14.0", "v0.9", "3.1.0-rc2", "2024.06"."""
    major, minor, patch = r.randint(0, 14), r.randint(0, 31), r.randint(0, 19)
    return pick(
        r,
        (
            f"{major}.{minor}.{patch}",
            f"{major}.{minor}.{patch}",
            f"{major}.{minor}",
            f"v{major}.{minor}.{patch}",
            f"v{major}.{minor}",
            f"{major}.{minor}.0-{pick(r, ('rc', 'beta', 'alpha', 'pre'))}{r.randint(1, 5)}",
            f"20{r.randint(19, 27)}.{r.randint(1, 12):02d}",
        ),
    )


# --- quantities ------------------------------------------------------------------------------------------------------


def port(r: random.Random) -> str:
    """A port: "9317"."""
    return str(r.randint(1025, 49150))


def count(r: random.Random) -> str:
    """A whole number from 2 upward, mostly small, in digits, at times with a comma: "7", "340", "12,500"."""
    form = r.random()
    if form < 0.3:
        return str(r.randint(2, 20))
    if form < 0.6:
        return str(r.randint(21, 400))
    if form < 0.85:
        return str(r.choice((2, 5, 10, 25, 50)) * r.randint(4, 96))
    return f"{r.randint(1, 480)},{r.randint(0, 9)}{pick(r, ('00', '50', '00', str(r.randint(10, 99))))}"


def number_word(r: random.Random) -> str:
    """A small number in letters: "seven"."""
    return lexicon.NUMERALS[r.randint(2, len(lexicon.NUMERALS) - 1)]


def small_count(r: random.Random) -> str:
    """A number from 2 to 40, in digits or letters."""
    return number_word(r) if chance(r, 0.3) else str(r.randint(2, 40))


def decimal(r: random.Random) -> str:
    """A number with one to three places: "0.85", "3.7"."""
    places = r.choice((1, 2, 2, 3))
    scale = r.choice((1, 1, 10, 100))
    return f"{r.uniform(0.01, 0.99) * scale + 10**-places:.{places}f}"


def quantity(r: random.Random) -> str:
    """A number with a unit: "40 litres", "1.5 GB"."""
    number = pick(r, (count, small_count, decimal))(r)
    return f"{number} {unit(r)}"


def size(r: random.Random) -> str:
    """An amount of data: "512 MB", "2GiB"."""
    number = r.choice((2, 4, 8, 16, 32, 64, 128, 256, 512, r.randint(3, 900)))
    return f"{number}{pick(r, (' ', ' ', ''))}{pick(r, ('KB', 'MB', 'GB', 'TB', 'KiB', 'MiB', 'GiB'))}"


def duration(r: random.Random) -> str:
    """A span of time: "11 days", "90 seconds", "45 min", "six weeks"."""
    name = pick(r, ("seconds", "seconds", "minutes", "minutes", "hours", "days", "days", "weeks", "months", "years"))
    if chance(r, 0.2):
        return f"{number_word(r)} {name}"
    most = {"seconds": 600, "minutes": 95, "hours": 96, "days": 120, "weeks": 30, "months": 36, "years": 15}[name]
    number = r.randint(2, most)
    if chance(r, 0.12):
        return f"{number} {({'seconds': 'sec', 'minutes': 'min', 'hours': 'hrs'}).get(name, name)}"
    return f"{number} {name}"


def short_duration(r: random.Random) -> str:
    """A span as configurations write it: "250ms", "30s", "15m", "36h"."""
    return pick(
        r,
        (
            f"{r.choice((5, 10, 25, 50)) * r.randint(1, 40)}ms",
            f"{r.randint(2, 180)}s",
            f"{r.randint(2, 90)}m",
            f"{r.randint(2, 96)}h",
            f"{r.randint(2, 90)}d",
        ),
    )


def percentage(r: random.Random) -> str:
    """A share: "35%", "2.5 percent"."""
    number = pick(r, (str(r.randint(2, 98)), str(5 * r.randint(1, 19)), f"{r.randint(0, 40)}.{r.randint(1, 9)}"))
    return number + pick(r, ("%", "%", "%", " percent", " per cent"))


def money(r: random.Random) -> str:
    """A price or sum: "EUR 480", "$12.50", "3,200 euros"."""
    plain = pick(r, (count(r), str(5 * r.randint(2, 480)), f"{r.randint(2, 90)}.{pick(r, ('50', '90', '25', '99'))}"))
    return pick(
        r, (f"EUR {plain}", f"${plain}", f"{plain} euros", f"{plain} dollars", f"{plain} pounds", f"CHF {plain}")
    )


def ordinal(number: int) -> str:
    """A number from 1 as a place in a row: "1st", "22nd", "13th"."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def date(r: random.Random) -> str:
    """A day in one of several notations: "14 March", "2025-03-14", "March 14th", "14.03.2025", "the 14th of March"."""
    day, month, year = r.randint(1, 28), r.randint(1, 12), r.randint(2019, 2028)
    name = lexicon.MONTHS[month - 1]
    return pick(
        r,
        (
            f"{day} {name}",
            f"{day} {name} {year}",
            f"{name} {day}",
            f"{name} {ordinal(day)}",
            f"{year}-{month:02d}-{day:02d}",
            f"{day:02d}.{month:02d}.{year}",
            f"the {ordinal(day)} of {name}",
            f"{name} {day}, {year}",
            f"{day:02d}/{month:02d}/{year}",
            f"{day} {name[:3]}",
        ),
    )


def month(r: random.Random) -> str:
    return pick(r, lexicon.MONTHS)


def year(r: random.Random) -> str:
    return str(r.randint(1890, 2035))


def weekday(r: random.Random) -> str:
    return pick(r, lexicon.WEEKDAYS)


def time(r: random.Random) -> str:
    """A time of day: "07:40", "4:15 pm", "half past six", "9 am", "18h30"."""
    hour, minute = r.randint(0, 23), 5 * r.randint(0, 11)
    twelve, half = hour % 12 or 12, "am" if hour < 12 else "pm"
    return pick(
        r,
        (
            f"{hour:02d}:{minute:02d}",
            f"{hour:02d}:{minute:02d}",
            f"{hour}:{minute:02d}",
            f"{twelve}:{minute:02d} {half}",
            f"{twelve} {half}",
            f"{twelve}{half}",
            f"half past {lexicon.NUMERALS[twelve]}",
            f"quarter to {lexicon.NUMERALS[twelve]}",
            f"{hour:02d}:{minute:02d} UTC",
        ),
    )


def clock(r: random.Random) -> str:
    """A time of day as logs write it: "14:03:27"."""
    return f"{r.randint(0, 23):02d}:{r.randint(0, 59):02d}:{r.randint(0, 59):02d}"


def stamps(r: random.Random, number: int) -> list[str]:
    """Times in the order of a log, in one notation, with the date or without."""
    day = f"{r.randint(2021, 2027)}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}"
    form = pick(
        r, ("{day} {time}", "{day}T{time}Z", "{time}", "{time}", "[{time}]", "{day} {time},{ms}", "{time}.{ms}")
    )
    seconds = r.randint(0, 80000)
    found = []
    for _ in range(number):
        seconds += r.randint(0, 40)
        time_of_day = f"{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        found.append(form.format(day=day, time=time_of_day, ms=r.randint(100, 999)))
    return found


def stamp(r: random.Random) -> str:
    """A date and time as logs write them: "2025-03-14T14:03:27Z"."""
    day = f"{r.randint(2021, 2027)}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}"
    return pick(r, (f"{day} {clock(r)}", f"{day}T{clock(r)}Z", f"{day} {clock(r)},{r.randint(100, 999)}"))


# --- drawing without repetition --------------------------------------------------------------------------------------


def distinct(r: random.Random, maker: Maker, number: int) -> list[str]:
    """`number` different words from one maker, none of which holds another. RuntimeError when 500 draws are too few."""
    found: list[str] = []
    for _ in range(500):
        if len(found) == number:
            return found
        word = maker(r)
        if not any(word in other or other in word for other in found):
            found.append(word)
    raise RuntimeError(f"{maker.__name__} does not give {number} different words")
