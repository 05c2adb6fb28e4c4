"""Whether what a summary says occurs in the messages: whole tokens, whatever their case."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

# Stands between the groups of three digits of one number: 12,500 or 12'500 or a space that does not break the line.
_GROUPED = re.compile(r"(?<![\w.,])(\d{1,3})((?:[,_'\u2019\u00a0\u202f\u2009]\d{3}){1,6})(?!\d|,\d)")
_SPACED = re.compile(r"(?<![\w.,])\d{1,3}(?: \d{3}){1,6}(?![\w.,])")
# Digits inside a word are no number, but a unit may follow them (90s, 16GB) and a v may stand before (v2).
_NUMBER = re.compile(
    r"(?:(?<![\w.])|(?<=[^\w\d]\.)|(?<=(?<!\w)v))"
    r"(?:\d{1,2}:\d{2}(?::\d{2})?(?![\d:])|\d+(?:\.\d+)*)(?![^\W\d_]*[\d_])"
)
_MIXED_WORD = re.compile(r"(?<!\w)(?=[^\W\d]*\d)\w{2,64}(?!\w)")
_WORD = re.compile(r"[^\W\d_]{2,}(?:['-][^\W\d_]+)*")
_SPACE = re.compile(r"\s+")
_UNIFIED = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u02bc", "'"),
        **dict.fromkeys("\u201c\u201d", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
        # Nothing of these is seen, but they would part a word in two.
        **dict.fromkeys("\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u00ad"),
    }
)
_MONTHS_IN_ORDER = "january february march april may june july august september october november december"
_MONTHS = _MONTHS_IN_ORDER.split()
_DAYS_IN_ORDER = "monday tuesday wednesday thursday friday saturday sunday"
_DAYS = _DAYS_IN_ORDER.split()
_CALENDAR = re.compile(r"(?<!\w)(?:" + "|".join(f"{name[:3]}(?:{name[3:]})?" for name in _MONTHS + _DAYS) + r")(?!\w)")
# As often other words; they are dates when a number stands beside them.
_AMBIGUOUS = re.compile(r"(?:may|mar|march|jan|dec|sun|sat|wed|mon)")
_BESIDE_NUMBER = re.compile(r"\d(?:st|nd|rd|th)?(?: of)? *$|^,? *(?:the )?\d")
_NUMERIC_DATE = re.compile(r"(?<![\d.-])(?:\d{4}[-/.](\d{1,2})[-/.]\d{1,2}|\d{1,2}[-/.](\d{1,2})[-/.]\d{4})(?![\d-])")
_NEAR_DAYS = re.compile(r"(?<!\w)(?:today|tomorrow|yesterday|tonight)(?!\w)")
# Without «one», which says «somebody» or «a thing» as often as it says 1.
_COUNT_WORDS = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty ninety hundred thousand"
)
_COUNTS = dict(zip(_COUNT_WORDS.split(), [*range(2, 21), 30, 40, 50, 60, 90, 100, 1000], strict=True))
_COUNT_WORD = re.compile(r"(?<!\w)(?:" + "|".join(_COUNTS) + r")(?!\w)")
_STEM = 5
_LONGEST_NAME = 120
_LONGEST_PHRASE = 500

_EXTENSIONS = (
    "bat bin c cc cfg conf cpp cs css csv cu db dockerfile docx env gguf go gz h hcl hpp html ini ipynb jar "
    "java jpg js "
    "json jsonl jsx kt lock log lua md mjs onnx parquet pdf php pkl png pptx proto ps1 py pyi rb rs rst safetensors "
    "scala service sh so sql sqlite svg swift tar tf toml ts tsv tsx txt vue wasm xls xlsx xml yaml yml zip"
)
_TOP_LEVELS = "ai app cloud co com corp de dev edu eu fr gov info int internal io lan local localhost net org test uk"
_SPECIAL_NAMES = [
    re.compile(pattern)
    for pattern in (
        r"[a-z][a-z0-9+.-]{1,15}://[^\s<>\"]{2,}",  # address
        r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{2,24}){1,4}",  # mail address
        r"(?:~|\.{1,2})?(?:/[\w.@%+~{}-]+){1,20}/?",  # path from a root
        r"[A-Za-z]:\\[^\s<>\"|?*]+",
        r"[\w.@-]+(?:/[\w.@*{}-]+){2,20}/?",  # path from here
        r"[\w.@-]+/(?:[\w@-]+\.[\w.@-]+|)",
        r"[\w@-][\w.@-]*\.(?:" + "|".join(_EXTENSIONS.split()) + r")",  # file
        r"\.[a-z][\w-]*(?:\.[\w-]+)*",  # hidden file
        r"(?:[a-z0-9-]+\.){1,6}(?:" + "|".join(_TOP_LEVELS.split()) + r")(?::\d{1,5})?(?:/[^\s<>\"]*)?",  # host
        r"localhost(?::\d{1,5})?",
        r"\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5}|/\d{1,2})?",
        r"v\d+(?:\.\d+)*(?:[-+][\w.]+)?",  # version
        r"\d+\.\d+\.\d+(?:[-+.][\w.]+)?",
        r"[A-Z][A-Z0-9]{1,9}-\d{1,7}",  # ticket
        r"#\d{1,7}|#[0-9A-Fa-f]{6}",
        r"[a-z_][a-z0-9_-]{1,30}(?:\.[a-z_][a-z0-9_-]{1,30}){1,4}",  # dotted name
        r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+(?:\(\))?",  # identifier
        r"[A-Za-z0-9]*[a-z][A-Z][A-Za-z0-9]*(?:\(\))?",
        r"[A-Z]{2,}[a-z][A-Za-z0-9]*",
        r"\w{2,64}\(\)",
        r"--[a-z][\w-]*(?:=[\w./:-]+)?",  # option
        r"(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}",  # digest
        r"[A-Za-z]{1,16}\d{1,6}[A-Za-z]{0,4}",  # p95, Q4, k8s
        r"(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9]{1,32}(?:-[A-Za-z0-9]{1,32}){0,6}-[A-Za-z]{0,12}\d[A-Za-z0-9]{0,24}",
        r"[a-z][a-z0-9]*(?:-[a-z0-9]+){0,4}-(?:api|app|bot|bucket|cache|cli|cluster|core|db|dev|edge|gateway"
        r"|host|job|"
        r"lib|live|node|primary|prod|proxy|queue|replica|runner|server|service|staging|store|svc|test|topic|worker)",
    )
]
_ACRONYM = re.compile(r"[A-Z]{2,6}|[A-Z]{2,5}s|[A-Z]&[A-Z]")
_CAPITAL = re.compile(r"[^\W\d_a-z][^\W\d_A-Z]+(?:[-'][^\W\d_]+)?")
_RELEASE = re.compile(r"\d{1,2}|\d{1,4}(?:\.\d{1,4}){1,3}")
_NO_NAME_WORDS = (
    "I OK NO YES FYI TODO ASAP EOD COB ETA TBD TBA TL DR TLDR NB PS IMO IMHO BTW WIP AM PM UTC CET GMT EST PST "
    "NOT AND OR "
    "ALL FAILED PASSED ERROR WARNING WARN INFO DEBUG NONE NULL TRUE FALSE None True False "
    "ONLY NEVER ALWAYS MUST KB MB GB TB KIB MIB GIB MS HZ GHZ EUR USD GBP AKA IE EG VS "
    "The A An This That These Those It Its He She We You They My Your Our Their His Her If When While Then So "
    "But And Or "
    "Yes No Ok Okay Sure Thanks Thank Please Hi Hello Hey Also Now Here There What Why How Where Who Which Let Lets "
    "Agreed Decided Decision Action Actions Note Notes Todo Correction Update Summary Overview Details Step "
    "Steps User "
    "Assistant System Tool Great Good Right Well Not For From With Without In On At By To Of As Is Are Was "
    "Were Will Can "
    "Could Should Would May Might Must Do Does Did Done Have Has Had Be Been I'm I'll I've I'd It's That's "
    "We'll We've "
    "We're Don't Let's You're You'll They're There's What's One Two Three First Second Third Next Last Finally"
)
_NO_NAMES = frozenset(_NO_NAME_WORDS.split()) | {
    name[:length].capitalize() for name in (*_MONTHS, *_DAYS) for length in (3, len(name))
}
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*)=")
_LINE_NUMBER = re.compile(r"(?<=\w):\d+(?::.*)?$")
_OPENING = "([{<\"'`*\u00ab\u201c\u2018\u201e"
_CLOSING = ")]}>\"'`*\u00bb\u201d\u2019,;:!?\u2026."
_ENDS_PHRASE = re.compile(r"[,;:!?.)\]}>\"\u201d\u2026]$")


def clean(text: str) -> str:
    """The text without what no summary can carry: control characters and lone surrogates become spaces."""
    if text.isprintable():
        return text
    return "".join(
        char if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs") else " "
        for char in text.replace("\r\n", "\n")
    )


def normalized(text: str) -> str:
    """The form in which texts are compared: one case, one kind of quote, dash and space, no separators of thousands."""
    text = _GROUPED.sub(lambda match: match[1] + "".join(filter(str.isdigit, match[2])), text.translate(_UNIFIED))
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def numbers(text: str) -> list[str]:
    """The numbers of a text, each in one form: 12,500 as 12500, 2.5, 14:30, 10.0.0.5, three as 3."""
    form = normalized(text)
    return _NUMBER.findall(form) + [str(_COUNTS[word]) for word in _COUNT_WORD.findall(form)]


def names(sentence: str, known: frozenset[str] | set[str] = frozenset()) -> Iterator[str]:
    """Names in one sentence, as they stand there: paths, files, identifiers, versions, addresses, hosts, tickets,
    acronyms and capitalised words. A capitalised word that begins the sentence is one only if it is in `known`.
    """
    run: list[str] = []
    first = True
    coded = False
    for token in sentence.split():
        word = _bare(token)
        usual = word not in _NO_NAMES and not coded and not token.startswith("`")
        plain = usual and bool(_CAPITAL.fullmatch(word)) and (not first or word in known)
        short = usual and bool(_ACRONYM.fullmatch(word))
        coded ^= token.count("`") % 2 == 1
        special = not short and _is_special(word)
        joins = plain or short or (special and word[:1].isupper())
        if run and (not (joins or _RELEASE.fullmatch(word)) or token[:1] in _OPENING):
            yield " ".join(run)
            run = []
        if joins or (run and _RELEASE.fullmatch(word)):
            run.append(word)
            if _ENDS_PHRASE.search(token) or len(run) == 5 or not joins:
                yield " ".join(run)
                run = []
        elif special:
            yield word
        if any(char.isalnum() for char in token):
            first = token[-1] in ".!?"
    if run:
        yield " ".join(run)


def plain_capitals(sentence: str) -> Iterator[str]:
    """Capitalised words inside a sentence, which are names unless they are also written small elsewhere."""
    words = sentence.split()
    for before, token in zip(words, words[1:], strict=False):
        word = _bare(token)
        if before[-1] not in ".!?:" and before[-1].isprintable() and _CAPITAL.fullmatch(word) and word not in _NO_NAMES:
            yield word


class Grounds:
    """What the messages hold, for asking whether a phrase, or all that a sentence states, occurs in them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = [normalized(text) for text in texts]
        self._numbers: set[str] = set()
        self._calendar: set[str] = set()
        for text in self._texts:
            self._numbers.update(_NUMBER.findall(text))
            self._numbers.update(spaced.replace(" ", "") for spaced in _SPACED.findall(text))
            self._numbers.update(str(_COUNTS[word]) for word in set(_COUNT_WORD.findall(text)))
            self._calendar.update(word[:3] for word in _CALENDAR.findall(text))
            for months in _NUMERIC_DATE.findall(text):
                self._calendar.update(_MONTHS[int(month) - 1][:3] for month in months if month and 0 < int(month) < 13)

    def hold(self, phrase: str) -> bool:
        """Whether the phrase occurs in one of the messages, as whole tokens: 42 does not occur in 1427 or in 42.5."""
        plain = normalized(phrase)
        return any(self._holds(wanted) for wanted in {plain, self._joined(plain)})

    def missing(self, sentence: str) -> list[str]:
        """The numbers, dates and names of a sentence that the messages do not hold."""
        text = self._joined(normalized(sentence))
        found = [number for number in _NUMBER.findall(text) if number not in self._numbers]
        counted = (word for word in _COUNT_WORD.findall(text) if str(_COUNTS[word]) not in self._numbers)
        found += [word for word in (*counted, *_NEAR_DAYS.findall(text)) if not self.hold(word)]
        found += [word for word in calendar_words(text) if word[:3] not in self._calendar]
        mixed = (
            word
            for word in _MIXED_WORD.findall(text)
            if not _NUMBER.fullmatch(word.rstrip("abcdefghijklmnopqrstuvwxyz"))
        )
        found += [word for word in (*mixed, *names(sentence)) if not self.hold(word)]
        return list(dict.fromkeys(found))

    def _holds(self, wanted: str) -> bool:
        if not wanted or len(wanted) > _LONGEST_PHRASE:
            return False
        before = r"(?<!\w)(?<!\d[.,:])" if wanted[0].isdigit() else r"(?<!\w)" if _is_word(wanted[0]) else ""
        after = r"(?!\w)(?![.,:]\d)" if wanted[-1].isdigit() else r"(?!\w)" if _is_word(wanted[-1]) else ""
        pattern = re.compile(before + re.escape(wanted) + after)
        return any(wanted in text and pattern.search(text) for text in self._texts)

    def _joined(self, text: str) -> str:
        """12 500 as 12500 where the messages have that number: a space alone may also part two numbers."""
        return _SPACED.sub(
            lambda match: joined if (joined := match[0].replace(" ", "")) in self._numbers else match[0], text
        )


def words_of(text: str) -> list[str]:
    """The words of a text in the form of `normalized`, without numbers."""
    return _WORD.findall(normalized(text))


def stem(word: str) -> str:
    """What the forms of one word have in common, roughly: its first letters."""
    return word[:_STEM] if len(word) > _STEM else word.removesuffix("s")


def calendar_words(text: str) -> Iterator[str]:
    """Months and weekdays in a text of the form of `normalized`; words like «may» only beside a number."""
    for match in _CALENDAR.finditer(text):
        beside = text[max(0, match.start() - 8) : match.start()], text[match.end() : match.end() + 8]
        if not _AMBIGUOUS.fullmatch(match[0]) or any(map(_BESIDE_NUMBER.search, beside)):
            yield match[0]


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _bare(token: str) -> str:
    """A token without the quotes, brackets and stops around it, and without a genitive."""
    if len(token) > 2 * _LONGEST_NAME:
        return ""
    word = token.lstrip(_OPENING).rstrip(_CLOSING)
    if word.endswith("(") and "()" in token:
        word += ")"
    word = word.replace("\u2019", "'").removesuffix("'s")
    if (setting := _SETTING.match(word)) is not None:
        word = setting[1]
    if "/" in word and "://" not in word:
        word = _LINE_NUMBER.sub("", word)
    return word if len(word) <= _LONGEST_NAME else ""


@lru_cache(maxsize=1 << 16)
def _is_special(word: str) -> bool:
    plain = word.isalpha() and (word.islower() or word[1:].islower())
    return len(word) > 1 and not plain and any(pattern.fullmatch(word) for pattern in _SPECIAL_NAMES)
