"""Values that people state in talk: amounts, times, places, names of things, short clauses, drawn from a generator."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

from remory.training.generator.talk_vocabulary import (
    ACTIVITIES,
    ANIMALS,
    CAUSES,
    COLOURS,
    COMPONENTS,
    DAMAGES,
    DAYS,
    EFFECTS,
    ENDINGS,
    FOODS,
    GROUPS,
    HANDLINGS,
    INGREDIENTS,
    INSTRUMENTS,
    MATERIALS,
    MONTHS,
    NUMBERS,
    ORDINALS,
    PARTS,
    PLANTS,
    PREPOSITIONS,
    PROMISES,
    REASONS,
    REMEDIES,
    ROLES,
    ROOMS,
    SETTINGS,
    SHAPES,
    SPOTS,
    STEPS,
    STREET,
    STUFF,
    SYLLABLES,
    TAILS,
    TASTES,
    TITLES,
    TOOLS,
    TROUBLES,
    UNITS,
    VEHICLES,
    WEATHER,
    listed,
)


def pick(items: list[str] | tuple[str, ...]) -> Callable[[random.Random], str]:
    """A value that is one of `items`."""
    return lambda r: r.choice(items)


def with_article(noun: str) -> str:
    """The noun behind "a" or "an"."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def persons(r: random.Random) -> str:
    """A number of persons."""
    return f"{number(r)} {r.choice(('guests', 'people', 'children', 'adults', 'persons', 'neighbours', 'members'))}"


def pseudo(r: random.Random) -> str:
    """An invented name of one word, such as "Velgarth"."""
    return ("".join(r.choice(SYLLABLES) for _ in range(r.choice((1, 2, 2)))) + r.choice(ENDINGS)).capitalize()


def weekday(r: random.Random) -> str:
    """A weekday, sometimes in the plural or with a time of day."""
    day = r.choice(DAYS)
    return r.choice((day, day, day, f"{day} morning", f"{day} evening", f"{day} afternoon", f"{day} night"))


def date(r: random.Random) -> str:
    """A calendar date in one of many notations."""
    day, month, year = r.randrange(1, 29), r.randrange(1, 13), r.randrange(2021, 2031)
    name = MONTHS[month - 1]
    suffix = "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return r.choice(
        (
            f"{day} {name}",
            f"{name} {day}",
            f"{day}{suffix} of {name}",
            f"{day:02}.{month:02}.{year}",
            f"{year}-{month:02}-{day:02}",
            f"{name[:3]} {day}",
            f"{day} {name} {year}",
            f"{r.choice(DAYS)} {day} {name}",
            f"{day}/{month}",
        )
    )


def month(r: random.Random) -> str:
    """A month or a part of one."""
    name = r.choice(MONTHS)
    return r.choice((name, name, f"early {name}", f"late {name}", f"mid-{name}", f"the end of {name}"))


def clock(r: random.Random) -> str:
    """A time of day."""
    hour, minute = r.randrange(5, 23), r.choice((0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55))
    half = f"{(hour - 1) % 12 + 1}{f':{minute:02}' if minute else ''} {'am' if hour < 12 else 'pm'}"
    words = f"{r.choice(('half past', 'quarter to', 'quarter past'))} {r.choice(NUMBERS[:11])}"
    return r.choice((f"{hour}:{minute:02}", f"{hour:02}:{minute:02}", half, half, words))


def hours(r: random.Random) -> str:
    """A span of opening hours."""
    start, stop = r.randrange(6, 13), r.randrange(14, 23)
    return r.choice((f"{start} to {stop}", f"{start}:30-{stop}:00", f"{start} am to {stop - 12} pm", f"{start}-{stop}"))


def duration(r: random.Random) -> str:
    """A span of time."""
    unit = r.choice(("minutes", "minutes", "hours", "days", "weeks", "months", "seconds", "years"))
    count = r.randrange(2, 90) if unit in ("minutes", "seconds") else r.randrange(2, 25)
    word = r.choice(NUMBERS)
    return r.choice((f"{count} {unit}", f"{count} {unit}", f"{word} {unit}", f"{r.randrange(1, 9)} and a half {unit}"))


def cooking_time(r: random.Random) -> str:
    """A duration in the range of minutes and hours."""
    minutes = r.randrange(2, 110)
    return r.choice((f"{minutes} minutes", f"{minutes} min", f"{r.randrange(2, 9)} hours", "an hour and a half"))


def interval(r: random.Random) -> str:
    """How often something is done."""
    count = r.choice(NUMBERS)
    unit = r.choice(("days", "weeks", "months", "hours", "years"))
    return r.choice(
        (
            f"every {count} {unit}",
            f"every {r.randrange(2, 40)} {unit}",
            f"every {r.choice(ORDINALS[1:])} {r.choice(DAYS)}",
            f"{r.choice(('twice', 'three times', 'once'))} a {r.choice(('day', 'week', 'month', 'year'))}",
            f"on the {r.choice(ORDINALS[:4])} {r.choice(DAYS)} of the month",
        )
    )


def money(r: random.Random) -> str:
    """A sum of money in several notations; the currency is at times left out."""
    whole, cents = r.choice((r.randrange(2, 100), r.randrange(100, 5000))), r.randrange(0, 100, 5)
    return r.choice(
        (
            f"{whole} euros",
            f"${whole}",
            f"{whole}.{cents:02}",
            f"{whole}.{cents:02} EUR",
            f"{whole} crowns",
            f"{whole} francs",
            f"USD {whole}",
            f"{whole:,} pounds",
            f"{whole} CHF",
        )
    )


def percent(r: random.Random) -> str:
    """A percentage."""
    value = r.randrange(2, 98)
    return r.choice((f"{value} %", f"{value}%", f"{value} percent", f"{value}.{r.randrange(1, 10)} %"))


def celsius(r: random.Random) -> str:
    """A temperature."""
    value = r.choice((r.randrange(-25, 30), r.randrange(30, 260)))
    return r.choice((f"{value} degrees", f"{value} C", f"{value} degrees C", f"{abs(value) + 32} F"))


def length(r: random.Random) -> str:
    """A length."""
    value = r.choice((r.randrange(2, 400), r.randrange(2, 40)))
    return f"{r.choice((str(value), str(value), f'{value}.{r.randrange(1, 10)}'))} {r.choice(UNITS['length'])}"


def size(r: random.Random) -> str:
    """Outer measures, a size of clothing or a format."""
    w, h = r.randrange(10, 260), r.randrange(10, 260)
    return r.choice(
        (f"{w} x {h} cm", f"{w} by {h}", f"size {r.randrange(34, 48)}", r.choice(listed("A3 A4 A5 XL M S XS", " ")))
    )


def weight(r: random.Random) -> str:
    """A weight."""
    return f"{r.choice((r.randrange(2, 60), r.randrange(60, 900)))} {r.choice(UNITS['weight'])}"


def volume(r: random.Random) -> str:
    """A volume of liquid."""
    return f"{r.choice((r.randrange(2, 30), r.randrange(30, 900)))} {r.choice(UNITS['volume'])}"


def number(r: random.Random) -> str:
    """A bare count, in digits or as a word."""
    return r.choice((str(r.randrange(2, 60)), str(r.randrange(3, 1000)), r.choice(NUMBERS), r.choice(NUMBERS)))


def code(r: random.Random) -> str:
    """A code of letters and digits, as on a locker, a label or a form."""
    a, b = r.choice(string.ascii_uppercase), r.choice(string.ascii_uppercase)
    n = r.randrange(10, 10000)
    return r.choice(
        (f"{a}{n}", f"{a}{b}-{n}", f"{n:04}", f"{n}-{a}", f"{a}{r.randrange(1, 9)}{b}{r.randrange(10, 99)}")
    )


def password(r: random.Random) -> str:
    """A pass phrase or a pin."""
    a, b = r.choice(ANIMALS), r.choice(PLANTS)
    return r.choice((f"{a}-{b}", f"{a}{r.randrange(10, 99)}", f"{b} {a}", f"{r.randrange(1000, 10000)}", f"{b}{a}"))


def extension(r: random.Random) -> str:
    """A short phone number or an extension."""
    n = r.randrange(100, 1000)
    return r.choice((f"{n}", f"ext. {n}", f"{n} {r.randrange(10, 99)} {r.randrange(10, 99)}", f"-{n}"))


def address(r: random.Random) -> str:
    """A street address in an invented street."""
    return f"{r.randrange(1, 190)} {pseudo(r)} {r.choice(STREET).capitalize()}"


def town(r: random.Random) -> str:
    """An invented place."""
    tail = r.choice(("", "", "haven", "ford", " Bay", " Junction", "berg", "mouth", " Mill"))
    return pseudo(r) + tail


def spot(r: random.Random) -> str:
    """Where something lies."""
    return f"{r.choice(PREPOSITIONS)} {r.choice(SPOTS)}"


def room(r: random.Random) -> str:
    """A room, by name or by number."""
    numbered = f"room {r.randrange(1, 420)}"
    return r.choice((f"the {r.choice(ROOMS)}", f"the {r.choice(ROOMS)}", numbered, f"hall {r.choice('ABCDEF')}"))


def role(r: random.Random) -> str:
    """Somebody by what they do."""
    return f"the {r.choice(ROLES)}"


def group(r: random.Random) -> str:
    """A club or a team."""
    return f"the {r.choice(GROUPS)}"


def brand(r: random.Random) -> str:
    """An invented make, at times with a model number."""
    name = pseudo(r)
    return r.choice(
        (name, name, f"{name} {r.randrange(2, 900)}", f"{name} {r.choice('ABDEKRSTX')}{r.randrange(1, 99)}")
    )


def portion(r: random.Random) -> str:
    """An amount of an ingredient as in a recipe."""
    n = r.randrange(2, 12)
    spoon = r.choice(("teaspoons", "tablespoons", "pinches", "cups", "handfuls", "sachets"))
    return r.choice((f"{n} {spoon}", f"{n * 25} g", f"{n * 10} ml", f"{r.choice(('half', 'a quarter of'))} a cup"))


def score(r: random.Random) -> str:
    """The result of a game."""
    a, b = r.randrange(0, 30), r.randrange(0, 30)
    return r.choice((f"{a}:{b}", f"{a}-{b}", f"{a} to {b}", f"{a + b + 10} points"))


def ratio(r: random.Random) -> str:
    """A mixing ratio or a scale."""
    a, b = r.randrange(1, 9), r.randrange(2, 60)
    return r.choice((f"{a}:{b}", f"{a} to {b}", f"{a} part to {b}", f"1:{b * 5}"))


def group_of(r: random.Random) -> str:
    """A number of persons or pieces with their noun."""
    noun = r.choice(("guests", "people", "children", "pupils", "boxes", "pairs", "sheets", "plots", "bottles", "rows"))
    return f"{number(r)} {noun}"


def technical(r: random.Random) -> str:
    """A figure with a technical unit."""
    unit = r.choice(listed("V A W kWh bar rpm Hz lux dB mbar Nm ohm mAh kPa ppm mA kW", " "))
    return f"{r.choice((r.randrange(1, 30), r.randrange(30, 3000)))} {unit}"


def acidity(r: random.Random) -> str:
    """A small decimal such as a pH."""
    return f"{r.randrange(3, 12)}.{r.randrange(1, 10)}"


def position(r: random.Random) -> str:
    """A seat, a bay, a shelf or a plot."""
    kind = r.choice(("seat", "bay", "plot", "shelf", "row", "berth", "locker", "table", "gate", "platform", "desk"))
    return (
        f"{kind} {r.choice((str(r.randrange(1, 80)), f'{r.randrange(1, 40)}{r.choice(string.ascii_uppercase[:8])}'))}"
    )


def season(r: random.Random) -> str:
    """A season or a feast."""
    base = r.choice(("spring", "summer", "autumn", "winter", "Easter", "midsummer", "the holidays", "harvest"))
    return r.choice((f"after {base}", f"before {base}", f"in {base}" if "the" not in base else f"during {base}"))


def reason(r: random.Random) -> str:
    """A short clause why."""
    return r.choice((r.choice(REASONS), f"the {r.choice(COMPONENTS)} {r.choice(TROUBLES)}"))


def cause(r: random.Random) -> str:
    """What is wrong with something."""
    return r.choice((r.choice(CAUSES), with_article(f"{r.choice(DAMAGES)} {r.choice(COMPONENTS)}")))


def ban(r: random.Random) -> str:
    """What must not be, such as "no ladders"."""
    return r.choice((r.choice(PROMISES), f"no {r.choice(INGREDIENTS)}", f"no {r.choice(ACTIVITIES)}"))


def step(r: random.Random) -> str:
    """Something to do, an imperative."""
    return r.choice((r.choice(STEPS), f"{r.choice(HANDLINGS)} the {r.choice(COMPONENTS)}"))


def remedy(r: random.Random) -> str:
    """What to do about a trouble, an imperative."""
    return r.choice((r.choice(REMEDIES), f"{r.choice(HANDLINGS)} the {r.choice(COMPONENTS)}"))


def titled(r: random.Random) -> str:
    """A title of a book, a play, a piece or a game."""
    return r.choice(TITLES)


VALUES: dict[str, Callable[[random.Random], str]] = {
    "weekday": weekday,
    "date": date,
    "month": month,
    "clock": clock,
    "hours": hours,
    "duration": duration,
    "cooking": cooking_time,
    "interval": interval,
    "money": money,
    "percent": percent,
    "celsius": celsius,
    "length": length,
    "size": size,
    "weight": weight,
    "volume": volume,
    "number": number,
    "code": code,
    "password": password,
    "extension": extension,
    "address": address,
    "town": town,
    "spot": spot,
    "room": room,
    "role": role,
    "group": group,
    "brand": brand,
    "portion": portion,
    "score": score,
    "ratio": ratio,
    "count": group_of,
    "persons": persons,
    "technical": technical,
    "acidity": acidity,
    "position": position,
    "season": season,
    "reason": reason,
    "remedy": remedy,
    "title": titled,
    "pseudo": pseudo,
    "colour": pick(COLOURS),
    "material": pick(MATERIALS),
    "food": pick(FOODS),
    "ingredient": pick(INGREDIENTS),
    "tool": pick(TOOLS),
    "plant": pick(PLANTS),
    "animal": pick(ANIMALS),
    "cause": cause,
    "instrument": pick(INSTRUMENTS),
    "vehicle": pick(VEHICLES),
    "weather": pick(WEATHER),
    "setting": pick(SETTINGS),
    "ban": ban,
    "shape": pick(SHAPES),
    "taste": pick(TASTES),
    "ordinal": pick(ORDINALS),
}


def identifier(r: random.Random) -> str:
    """A name of two or three parts, as a key, an option, a variable or a method has it."""
    parts = [*r.sample(PARTS, r.choice((1, 1, 2))), r.choice(TAILS)]
    return r.choice(
        (
            "_".join(parts),
            "--" + "-".join(parts),
            "-".join(parts),
            parts[0] + "".join(part.capitalize() for part in parts[1:]),
            "_".join(parts).upper(),
            ".".join(parts),
        )
    )


def plain(r: random.Random) -> str:
    """A number as a configuration holds it."""
    return r.choice((str(r.randrange(2, 100)), str(r.randrange(100, 9000)), str(2 ** r.randrange(3, 15)), acidity(r)))


def period(r: random.Random) -> str:
    """A span of days to years."""
    unit = r.choice(("days", "weeks", "months", "years", "working days", "quarters"))
    return f"{r.choice((str(r.randrange(2, 40)), r.choice(NUMBERS)))} {unit}"


def musical_key(r: random.Random) -> str:
    """A key such as "B flat minor"."""
    return f"{r.choice('ABCDEFG')}{r.choice(('', '', ' flat', ' sharp'))} {r.choice(('major', 'minor'))}"


def with_unit(*units: str) -> Callable[[random.Random], str]:
    """A value that is a figure with one of the units."""
    return lambda r: f"{r.choice((r.randrange(2, 40), r.randrange(40, 2000)))} {r.choice(units)}"


VALUES |= {
    "period": period,
    "musickey": musical_key,
    "stuff": pick(STUFF),
    "beats": lambda r: r.choice(
        (str(r.randrange(40, 200)), f"{r.randrange(40, 200)} beats", f"{r.randrange(40, 190)} bpm")
    ),
    "bar": lambda r: f"{r.choice(('bar', 'measure', 'bars', 'line'))} {r.randrange(2, 240)}",
    "reading": with_unit("mm", "hPa", "lux", "degrees", "knots", "cm", "dB", "ppm", "points", "m/s"),
    "energy": with_unit("kWh", "kW", "MWh", "watts", "W", "units", "cubic metres"),
    "speed": with_unit("rpm", "strokes a minute", "m/s", "km/h", "turns a minute", "Hz"),
    "torque": with_unit("Nm", "N m", "newton metres"),
    "supply": with_unit("V", "volts", "V DC", "W", "A", "Hz"),
    "pressure": with_unit("bar", "kPa", "mbar", "A", "mA", "psi"),
    "step": step,
    "identifier": identifier,
    "plain": plain,
    "unit": pick(
        listed("seconds milliseconds bytes kilobytes rows pixels characters minutes tokens percent lines points", " ")
    ),
    "shorttime": lambda r: f"{r.randrange(2, 900)}{r.choice((' s', ' ms', ' seconds', 's', ' minutes'))}",
    "exitcode": lambda r: r.choice((str(r.randrange(2, 120)), str(r.randrange(400, 512)), f"E{r.randrange(10, 999)}")),
    "rate": lambda r: f"{r.randrange(2, 900)} {r.choice(('times a minute', 'per hour', 'a day', 'per second'))}",
    "format": pick(
        "JSON CSV TSV YAML XML parquet Markdown plain text gzip HTML PNG SVG NDJSON TOML".replace(
            "plain text", "plain"
        ).split()
    ),
    "scope": lambda r: (
        f"{r.choice(PARTS)}{r.choice(':.')}{r.choice(listed('read write admin list purge edit view', ' '))}"
    ),
    "effect": pick(EFFECTS),
}
