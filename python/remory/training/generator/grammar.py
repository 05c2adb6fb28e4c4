"""Templates with named slots: `<service>` or `<noun>` is replaced by a fresh draw of that maker."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from remory.training.generator import entities, words
from remory.training.generator.words import Maker, capital, pick

_STOPS = (". ", "? ", "! ", "\n")
_SLOT = re.compile(r"<(\w+)>")


def _draw_milliseconds(r: random.Random) -> str:
    return f"{r.uniform(0.2, 950):.{r.choice((0, 1, 2))}f}"


def _draw_seconds(r: random.Random) -> str:
    return f"{r.uniform(0.01, 90):.2f}"


def _draw_digit(r: random.Random) -> str:
    return str(r.randint(1, 9))


def _draw_line(r: random.Random) -> str:
    return str(r.randint(3, 1800))


def _draw_bytes(r: random.Random) -> str:
    return str(r.randint(90, 98000))


def _draw_plural(r: random.Random) -> str:
    return words.code_word(r) + "s"


SLOTS: dict[str, Maker] = {
    "adjective": words.adjective,
    "address": words.address,
    "branch": words.branch,
    "bytes": _draw_bytes,
    "camel": words.camel,
    "clock": words.clock,
    "code": words.code,
    "colour": words.colour,
    "commit": words.commit,
    "constant": words.constant,
    "count": words.count,
    "date": words.date,
    "decimal": words.decimal,
    "digit": _draw_digit,
    "duration": words.duration,
    "endpoint": entities.endpoint,
    "error": words.error,
    "event": entities.event,
    "file": words.file_name,
    "flag": words.flag,
    "folder": words.folder,
    "function": words.snake,
    "host": words.host,
    "job": entities.job,
    "kebab": words.kebab,
    "line": _draw_line,
    "long_hash": lambda r: words.hexadecimal(r, 32),
    "machine": entities.machine,
    "material": words.material,
    "module": entities.module,
    "ms": _draw_milliseconds,
    "name": words.pseudo_word,
    "noun": words.noun,
    "number_word": words.number_word,
    "owner": words.owner,
    "pascal": words.pascal,
    "path": words.path,
    "percentage": words.percentage,
    "place": words.place,
    "plural": _draw_plural,
    "port": words.port,
    "product": words.product,
    "reason": words.reason,
    "role": words.role,
    "route": words.route,
    "seconds": _draw_seconds,
    "service": words.service,
    "short_duration": words.short_duration,
    "size": words.size,
    "small": words.small_count,
    "snake": words.snake,
    "spot": words.spot,
    "stamp": words.stamp,
    "store": entities.store,
    "team": words.team,
    "test": entities.test,
    "thing": entities.thing,
    "ticket": words.ticket,
    "time": words.time,
    "tool": words.tool,
    "url": words.url,
    "version": words.version,
    "weekday": words.weekday,
    "word": words.code_word,
}


def expand(r: random.Random, template: str, **given: str) -> str:
    """The template with its slots filled; a slot in `given` has that text throughout, unknown ones stay as they are."""

    def replace(found: re.Match[str]) -> str:
        name = found[1]
        if name in given:
            return given[name]
        if name not in SLOTS:
            return found[0]
        word = SLOTS[name](r)
        return capital(word) if word.startswith("the ") and template[: found.start()].endswith(_STOPS) else word

    return _SLOT.sub(replace, template)


def expand_any(r: random.Random, templates: Sequence[str], **given: str) -> str:
    """One of the templates, filled, with a large first letter where it starts with a word of English."""
    template = pick(r, templates)
    text = expand(r, template, **given)
    return text if template.startswith("<") and not text.startswith("the ") else capital(text)
