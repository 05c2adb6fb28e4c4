"""What in a chat is worth remembering, found without a model: sentences with their facts, decisions, actions, "
"names."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from remory.language import grounding

# What is read of a chat, in characters: beyond it, messages are chosen, the newest first.
MESSAGE_CHARACTERS = 40_000
CHAT_CHARACTERS = 600_000
LONGEST_SENTENCE = 320

DECISION, ACTION, CORRECTION, QUESTION, FACT, NOISE = "decision", "action", "correction", "question", "fact", "noise"

_KIND_WEIGHTS = {DECISION: 1.2, ACTION: 0.6, CORRECTION: 0.3, FACT: 0.5, QUESTION: -1.5, NOISE: -3.0}
_LONGEST_LINE = 4_000
_LONGEST_WORD = 160
_SHORT_WORDS = 6
_SHORTEST = 8
_SAME = 0.9
_ALIKE = 0.72

_SENTENCE_END = re.compile(r"(?<=[.!?\u2026])[\"'\u201d\u2019)\]*]{0,3}\s+|(?<=[\u3002\uff01\uff1f\u061f\u06d4])\s*")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|approx|incl|excl|nr|fig|ca|cf|resp|dept|[A-Z])\.$", re.IGNORECASE
)
_CLAUSE_END = re.compile(
    r"(?<=[;:])\s+|(?<=,)\s+(?=(?:and|but|so|then|which|because|while)\s)|\s+[\u2013\u2014-]{1,2}\s+"
)
_FENCE = re.compile(r"\s*(?:```|~~~)")
_ITEM = re.compile(r"\s{0,12}(?:[-*+\u2022\u2023\u25e6]|\(?\d{1,3}[.)]|\[[ xX]\])\s+(?:\[[ xX]\]\s+)?")
# A command, a line of a log or of a search's output, a setting, a line of JSON or of a program.
_CODE_LINE = re.compile(
    r"\s*(?:[$%] ?[a-z][\w./-]* |[\w./-]{2,120}:\d+:|(?:\w{1,40}Error|Traceback|FAILED|PASSED|ERROR|WARN(?:ING)?"
    r"|INFO|DEBUG|assert|import|def|SELECT|GET|POST)\b[ :(]|[\w.-]{1,60} ?= ?[^\s]{1,80}$|[{}\]]|\[[{\"]"
    r"|</?\w{1,20}[ >]|=+ )",
)
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+")
_RULE = re.compile(r"[\s|:=_*+-]*")
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,3})(?=\S)([^*\n]{1,300}?)(?<=\S)\1(?![\w*])")
_LEAD_IN = re.compile(
    r"(?:ok(?:ay)?|sure(?: thing)?|yes|yeah|yep|yup|no problem|right|great|good|perfect|excellent|nice|cool|got it"
    r"|thanks?|thank you|thanks a lot|well|so|and|but|also|alright|all right|fine|noted|understood|agreed|done|hmm+"
    r"|oh|ah|actually|by the way|btw|fyi|one more thing|one more question|quick question|of course|absolutely"
    r"|exactly|indeed|makes sense|sounds good|good (?:point|idea|question|call|catch)|hi(?: there| team| all)?"
    r"|hello|hey|sorry|wait|then|now|anyway|please note that|note that|just to confirm|to confirm|for the record"
    r"|in that case|ha(?:ha)?|oops|ugh|huh|ah|morning|good morning|welcome)(?:\s*[,!:;.\u2014]+|\s+[-\u2013])\s+",
    re.IGNORECASE,
)
_CONJUNCTION = re.compile(r"(?:and|but|also|then|so)\s+(?!that\b|far\b|on\b|as\b)(?=\w)", re.IGNORECASE)
_AGREEMENT = re.compile(
    r"(?:ok(?:ay)?,? |good,? |fine,? |right,? |yes,? )?(?:agreed|decided|deal|settled|approved|that's (?:decided"
    r"|settled|agreed)|we (?:all )?agree|it's (?:decided|settled))(?: then)?[.!:]$",
    re.IGNORECASE,
)
_ACCEPTANCE = re.compile(
    r"\s*(?:yes|yep|yeah|ok|okay|good|fine|agreed|deal|great|perfect|sounds (?:good|right|fair)|makes sense"
    r"|do (?:that|it|so)|let's (?:do|go|try|take|have)|right|i like|that works|works for me|go ahead|please do|sure"
    r"|exactly|approved|convinced|true|fair enough|you're right|i agree|we agree|alright|all right|then (?:we|let's"
    r"|i'll)|in that case|so be it|done)\b",
    re.IGNORECASE,
)
_PROPOSAL = re.compile(
    r"\b(?:i'd|i would|i'll|i suggest|i propose|i recommend|i advise|suggestion|proposal|better|best|could|should"
    r"|ought to|let's|how about|what about|would rather|instead)\b|^(?:use|put|keep|make|set|move|add|take|leave"
    r"|write|send|split|merge|start|stop|run|ask|let|give|go|try|store|drop|remove|replace|raise|lower|wait|print"
    r"|order|book|plan|pick|choose|limit|cap|turn|switch|pin|build|skip|mark|name|call|show|cut|open|close|hold"
    r"|point|share|mention|offer|tell|check|read|do|don't|have|bring|buy|pay|only|one|first)\b",
    re.IGNORECASE,
)
# As a user speaks: a yes with what it is said to.
_CHOICE = re.compile(
    r"(?:ok(?:ay)?|good|fine|right|yes|alright|all right|perfect|true|fair enough"
    r"|great)\s*[,:;\u2013\u2014-]+\s+(?!(?:thanks?|but|i)\b)(?=\S+ \S+ \S+)|then (?!i\b|it\b"
    r"|there\b)(?=\S+ \S+ \S+)",
    re.IGNORECASE,
)
_ASKED_PROPOSAL = re.compile(
    r"(?:(?:shall|should|can|could) (?:we|i)|do you want (?:me|us) to|would you like me to|what if we"
    r"|how about we) (.{8,})\?$",
    re.IGNORECASE,
)
_AGREED_LEAD_IN = re.compile(
    r"(?:(?:(?:we|i|the team)(?:'ve| have)? (?:(?:all|both|finally|now|just) )?(?:decided|agreed|chose) (?:to|that"
    r"|on)|(?:it was )?(?:decided|agreed) (?:to|that|on)|let'?s)\s+|(?:decision|decided|agreed|action items?|todo"
    r"|to-do|next steps?|follow[- ]up)\s*[:,-]\s+)(?=[\w`/\"'])",
    re.IGNORECASE,
)

_TEAM = (
    r"(?:(?:[\w-]+ ){0,2}(?:team|lead|manager|owner|ops|engineers?|analysts?|support|qa|legal|finance|security"
    r"|vendor|designers?|marketing|sales|group|desk|admins?|contractor|on-call|everyone|someone|developers?|office"
    r"|editor|crew|coordinator|staff|reviewer|author|client|customer|accountant|supplier|planner|director"
    r"|organi[sz]er|partner))"
)
_DECISION = re.compile(
    r"\b(?:we|i|they|" + _TEAM + r")(?:'ve| have| had)? (?:\w+ )?(?:decided|agreed|chose|settled|opted|picked"
    r"|concluded|committed|approved|signed off)\b|\blet'?s (?:not |just |also |then |all )?(?:use|go|keep|make|set"
    r"|stick|do|move|switch|take|start|call|ship|add|put|leave|drop|target|run|have|schedule|pick|choose|name|book"
    r"|cap|limit|stay|skip|plan|aim|write|store|send|split|merge|freeze|settle|lock|cut|get|say|open|close|reserve"
    r"|order|rename|replace|remove|avoid|bump|raise|lower|postpone|push|hold)\b|\b(?:decision|decided|agreed"
    r"|resolved)\s*[:\u2014]|^agreed\b|\bdecided (?:to|on|that|against|for)\b|\b(?:we'll|we will|we are|we're|i'll"
    r"|i will|i'm) (?:\w+ )?(?:go(?:ing)? with|stick(?:ing)? with|stay(?:ing)? with|adopt(?:ing)?|drop(?:ping)?"
    r"|standardi[sz]e on|settl(?:e|ing) (?:on|for)|keep(?:ing)?)\b|\b(?:is|are|was|were|been) (?:now )?(?:final"
    r"|approved|settled|decided|agreed)\b|\bgo(?:ing)? with\b|\bsettled on\b|^(?:then|so|good,?|fine,?|ok,?|okay,?"
    r"|right,?|yes,?|agreed,?) we(?:'ll| will)? [a-z]+\b|^\S+(?: \S+){0,5},? then[.!]?$|\b(?:i|we)(?:'ll"
    r"| will)? (?:take|prefer|choose|pick)\b|\b(?:i'll|i will|we'll|we will) (?:leave|use|skip|stay|do without"
    r"|start with|settle)\b|\bfrom now on\b|\bit is,? then\b|\bwe (?:all )?(?:keep|take|drop|stay with|stick (?:to"
    r"|with)|go (?:with|for)|leave|choose|skip|postpone|switch|won't|will not)\b|\bthen we (?:do|don't|use|leave"
    r"|start|stop|write|wait|put|make|let)\b|\bfinal (?:decision|answer|choice)\b|\bthe (?:plan|choice) is\b",
    re.IGNORECASE,
)
_UNDECIDED = re.compile(
    r"\b(?:not (?:yet )?(?:decided|agreed|final)|n't (?:yet )?(?:decided|agreed)|undecided|have to decide"
    r"|need to decide|must decide|should decide|let's see|let's say|let's have a look|let's take a look"
    r"|before we decide|if we decide|whether|go with you)\b",
    re.IGNORECASE,
)
_PROMISE = re.compile(
    r"\b(?:i|we)(?:'ll| will|'m going to| am going to|'re going to| are going to)\b"
    r"|\b" + _TEAM + r" (?:will|is going to|are going to|has to|have to|needs? to|must|should)\b",
    re.IGNORECASE,
)
_DUTY = re.compile(
    r"\b(?:i|we|you)(?:'ve| have)? (?:need to|have to|must|should|got to|still need)\b|\bneeds? to be\b"
    r"|\bremind (?:me|us)\b|\b(?:todo|to-do|action items?|next steps?|follow[- ]up)\b|\bassigned to\b|\b(?:is"
    r"|are) (?:due|responsible|on the hook)\b|^(?:please|remember to|don't forget|make sure)\b",
    re.IGNORECASE,
)
_DEADLINE = re.compile(
    r"\b(?:by|before|until|due|on|no later than) (?:the )?(?:end of|next|this|mon|tues|wednes|thurs|fri|satur|sun"
    r"|tomorrow|tonight|noon|eod|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|\d)|\btomorrow\b|\btonight\b"
    r"|\bnext (?:week|sprint)\b",
    re.IGNORECASE,
)
_NO_ACTION = re.compile(
    r"\b(?:(?:will|'ll) (?:be (?:happy|glad|able|fine|easier|faster|better)|help|explain|show you|walk|see|notice"
    r"|find|get|need|probably|likely|never|also see|have)|as (?:we|i) (?:will|should)|you should (?:see|now|be))\b",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"\b(?:actually|correction|scratch that|i was wrong|i misspoke|misread|mistyped|instead of|rather than"
    r"|no longer|not anymore|any more|changed|(?:moves?|moved|moving|shifts?|slips) (?:it |them |this )?(?:from|to)"
    r"|than (?:i|we) thought|make (?:that|it)|sorry|update:|turns out|turned out|typo|i meant|should (?:be|read"
    r"|have been)|is now|are now|now (?:is|uses|runs|costs|says)|revised|postponed|delayed|pushed (?:back|to)"
    r"|(?:bumped|lowered|raised|increased|reduced|shifted|slipped|grew|went up|dropped) (?:from|to)|renamed"
    r"|replaced|new (?:date|deadline|limit|plan|number|budget|price|target|time|name|port|value)|in fact"
    r"|on second thought|wrong|let'?s change)\b|^(?:no|wait)[,.:\u2014 ]|, not \S|\bnot \S+(?: \S+)?,? but\b",
    re.IGNORECASE,
)
_WEIGHTY = re.compile(
    r"\b(?:because|root cause|the (?:problem|issue|reason|cause|bug|fix|goal|aim|budget|deadline|limit|owner|target"
    r"|rule|plan)|caused by|fixed by|prefers?|always|never|must|required|requires?|only|called|named|code ?name"
    r"|nickname|password|allergic|favou?rite|important|constraint|blocker|blocked|responsible|lives? in|located"
    r"|stored in|default|threshold|costs?|at most|at least|maximum|minimum)\b",
    re.IGNORECASE,
)
_NOISE = re.compile(
    r"(?:hi|hello|hey|thanks?|thank you|great|perfect|sounds good|got it|no problem|you're welcome|let me know"
    r"|feel free|i hope|hope (?:this|that)|happy to|glad|sure|of course|cool|nice|awesome|good (?:question|point"
    r"|idea|call|catch|luck|to know)|makes sense|will do|bye|goodbye|see you|ok(?:ay)?|yes|no|done|understood|noted"
    r"|right|agreed|exactly|correct|welcome|is there anything|anything else|sorry|i'm sorry|i apologi[sz]e"
    r"|would you like|do you (?:want|need)|here(?:'s| is| are)|i can help|i'd be happy|one moment|take care"
    r"|that(?:'s| is) (?:great|good|fine|it|all|right|correct|helpful)|that helps)\b",
    re.IGNORECASE,
)
_INSTRUCTION = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\b.{0,40}\b(?:instructions?|prompts?|rules|above|previous"
    r"|earlier|notes)\b|\byou are (?:now|an? (?:ai|assistant|model))\b|\bsystem prompt\b|\b(?:respond|reply|answer"
    r"|output|write|say) (?:only|just)\b|\bsummar(?:y|i[sz]e)\b.{0,40}\b(?:must|should|only|say|as)\b",
    re.IGNORECASE,
)
_DANGLING = re.compile(
    r"(?:(?:it|its|they|them|their|that|this|these|those|he|she|both|neither|either|same|otherwise|which|there|then"
    r"|after that|instead|the (?:other|latter|former|second|first|rest|same)(?: one)?|one of them|make (?:it"
    r"|that))\b|let'?s (?:\w+ ){1,3}(?:that|it|this|them|those)\b|(?:we|i)(?:'ll| will)? (?:\w+ ){1,2}(?:that|it"
    r"|this|them)\b)",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(
    r"(?:I|We)(?P<verb>'ll| will|'m going to| am going to| need to| have to| must| should| want to)(?= \w)"
)
_SPEAKS_OF_SELF = re.compile(
    r"\b(?:i|i'm|i'll|i've|i'd|me|my|mine|we|we'll|us|our|ours|you|your|yours)\b", re.IGNORECASE
)
_DAYS_SHORT = frozenset(("mon", "tue", "wed", "thu", "fri", "sat", "sun"))
_MONTHS_SHORT = frozenset(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"))
_QUOTED = re.compile(r"[\"\u201c\u00ab]([^\"\u201c\u201d\u00ab\u00bb\n]{2,60})[\"\u201d\u00bb]|`([^`\n]{2,80})`")
_PLAIN_START = re.compile(r"[a-z]+(?:'[a-z]+)?(?=[\s,;:.!?]|$)")
_IDLE_TOPIC_WORDS = (
    "second seconds minute minutes hour hours day days week weeks month months year years euro euros dollars percent "
    "today tomorrow yesterday tonight morning evening night noon time times late later early fine good better "
    "best bad "
    "nice great hear sorry look looks come comes came back new old big small long short first last next two "
    "three four "
    "five six seven eight nine ten passed failed change changes changed way lot bit part kind case idea point "
    "question "
    "answer help message please right left number numbers people person someone everyone work works worked "
    "possible able"
)
_IDLE_TOPICS = frozenset(_IDLE_TOPIC_WORDS.split())
_PLAIN_WORD = re.compile(r"[A-Z]?[a-z-]+")
_END_MARK = re.compile(r"[.!?\u2026:;\u3002\uff01\uff1f\u061f][\"'\u201d\u2019)\]`*]*$")

_STOP_WORDS = (
    "a about above after again all also am an and any are as at be been before being below between both but by "
    "can could did "
    "do does doing done down during each either else ever every few for from further get gets getting give "
    "given go goes going "
    "got had has have having he her here hers him his how however i if in into is it its itself just keep know "
    "let like make "
    "many may me might more most much must my need needs no nor not now of off ok okay on once one only or "
    "other our out over "
    "own per please put quite rather really right same say says see she should so some still such sure take "
    "than thank thanks "
    "that the their them then there these they thing things think this those through to too under until up "
    "upon us use used "
    "uses using very want wants was way we well were what when where which while who whom why will with within "
    "without would "
    "yes yet you your yours i'm i'll i've i'd it's that's we'll we've we're don't doesn't didn't isn't aren't "
    "can't won't let's "
    "you're you'll they're there's what's user assistant"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())


Outdated = tuple[frozenset[str], int]


@dataclass(frozen=True)
class Message:
    """The part of one message that is read: its place in the chat, who wrote it, and its clean text."""

    turn: int
    role: str
    text: str


@dataclass(frozen=True)
class Sentence:
    """One sentence of a chat as a summary may show it.

    `order` counts the chat's sentences. `kinds` are the signals it carries. `values` are the numbers, dates, names and
    quotations in it, in the form of `grounding.normalized`; `words` the stems of its other words. `needs` is the
    order of the sentence without which this one cannot be understood. `weight` is its worth beside its values.
    """

    text: str
    role: str
    turn: int
    order: int
    kinds: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()
    needs: int | None = None
    weight: float = 0.0


def read_messages(turns: Iterable[tuple[str, str]]) -> list[Message]:
    """The messages (role, text) that have text, cleaned; of long messages the beginning and the end.

    Beyond CHAT_CHARACTERS the newest are read until half of that is used, and of the others as many as the other half
    holds, chosen evenly.
    """
    messages = [
        Message(turn, role, text)
        for turn, (role, raw) in enumerate(turns)
        if (text := grounding.clean(_ends(raw)).strip())
    ]
    if sum(len(message.text) for message in messages) <= CHAT_CHARACTERS:
        return messages
    newest: list[Message] = []
    room = CHAT_CHARACTERS // 2
    while messages and room > 0:
        newest.append(messages.pop())
        room -= len(newest[-1].text)
    older = sum(len(message.text) for message in messages)
    step = max(1, -(-older // (CHAT_CHARACTERS // 2)))
    return messages[::step] + newest[::-1]


def read_sentences(messages: Sequence[Message], check: Callable[[], None] = lambda: None) -> list[Sentence]:
    """All sentences of the messages in their order, with their signals; `check` is called for each message."""
    capitals = _names_by_capitals(messages)
    found: list[Sentence] = []
    earlier = 0
    for message in messages:
        check()
        before = len(found)
        if before and found[-1].role != message.role and _ACCEPTANCE.match(message.text):
            _accept(found, earlier)
        agreed = False
        for text in sentences_of(message.text):
            sentence = _sentence(text, message, len(found), capitals)
            if agreed and not sentence.kinds & {QUESTION, NOISE, DECISION} and len(text.split()) >= 3:
                sentence = replace(sentence, kinds=sentence.kinds - {ACTION} | {DECISION}, weight=sentence.weight + 1.2)
            agreed = _AGREEMENT.match(text) is not None
            found.append(replace(sentence, needs=_needed(sentence, found, before)))
        earlier = before
    return found


def sentences_of(text: str) -> Iterator[str]:
    """The sentences of one message without its Markdown; short lists stay with the line that introduces them."""
    heading = ""
    items: list[str] = []
    for line, kind in _lines(text):
        if kind == "item":
            items.append(line)
            continue
        if kind == "code":
            items.append(f"`{line}`")
            continue
        if not line:
            continue
        yield from _listed(heading, items)
        heading, items = "", []
        pieces = list(_split(line))
        if pieces and pieces[-1].endswith(":"):
            heading = pieces.pop()
        yield from pieces
    yield from _listed(heading, items)


def entities_of(sentences: Sequence[Sentence], grounds: grounding.Grounds, limit: int) -> tuple[str, ...]:
    """The names most often said, each as it stands in the messages, at most `limit`."""
    counts: Counter[str] = Counter()
    shown: dict[str, str] = {}
    for sentence in sentences:
        for name in sentence.names:
            key = grounding.normalized(name)
            counts[key] += 1
            shown.setdefault(key, name)
    order = {key: place for place, key in enumerate(shown)}
    ranked = sorted(counts, key=lambda key: (-counts[key] - (not key.isalpha()), order[key]))
    kept: list[str] = []
    for key in ranked[: 4 * limit]:
        part_of_other = any(key != other and f" {key} " in f" {other} " for other in ranked[: 4 * limit])
        if len(key) > 1 and not part_of_other and grounds.hold(shown[key]):
            kept.append(shown[key])
    return tuple(kept[:limit])


def phrases_of(sentence: Sentence) -> Iterator[str]:
    """Runs of one to three words without stop words or numbers, which may be topics."""
    run: list[str] = []
    plain = "" if sentence.text.startswith("`") else sentence.text
    for token in (*plain.split(), "."):
        word = token.strip("()[]\"'`*\u201c\u201d,;:.!?\u2026")
        small = word.lower().replace("\u2019", "'")
        usable = 2 < len(word) <= 24 and small not in STOP_WORDS and small not in _IDLE_TOPICS
        if usable and small.replace("-", "").isalpha() and not any(grounding.calendar_words(f"1 {small}")):
            run.append(small if _PLAIN_WORD.fullmatch(word) else word)
        else:
            yield from _runs(run)
            run = []
            continue
        if token[-1] in ",;:.!?)":
            yield from _runs(run)
            run = []


def split_line(line: str) -> Iterator[str]:
    """The sentences of one line of text, whole."""
    start = 0
    for match in _SENTENCE_END.finditer(line):
        if not _ABBREVIATION.search(line[max(start, match.start() - 12) : match.end()].strip()):
            yield line[start : match.end()].strip()
            start = match.end()
    if rest := line[start:].strip():
        yield rest


def line_parts(line: str) -> tuple[str, str]:
    """The mark of a Markdown line (of a heading or a list, with its indentation) and what stands behind it."""
    match = _HEADING.match(line) or _ITEM.match(line)
    return (line[: match.end()], line[match.end() :].strip()) if match else ("", line.strip())


def told(sentence: Sentence) -> str:
    """The sentence as a note about the chat: without what leads into it, «I will» with who it is."""
    text = sentence.text
    if (match := _FIRST_PERSON.match(text)) is None or sentence.role not in ("user", "assistant"):
        return text
    if text.startswith("We") or _SPEAKS_OF_SELF.search(text[match.end() :]):
        return text
    verb = {
        "'ll": " will",
        "'m going to": " is going to",
        " am going to": " is going to",
        " need to": " needs to",
        " have to": " has to",
        " want to": " wants to",
    }.get(match["verb"], match["verb"])
    return f"The {sentence.role}{verb}{text[match.end() :]}"


def plainly(text: str) -> str:
    """A decision or an action without «we decided to», «let's» and the like, beginning with a capital."""
    shorter = _AGREED_LEAD_IN.sub("", text, count=1) if _AGREED_LEAD_IN.match(text) else text
    return _capitalized(shorter) if len(shorter.split()) >= 2 else text


def is_instruction(text: str) -> bool:
    """Whether a sentence speaks to whoever summarises instead of telling something."""
    return _INSTRUCTION.search(text) is not None


def outdated_values(sentences: Sequence[Sentence], vectors: np.ndarray) -> dict[int, Outdated]:
    """What was corrected later: by the order of each such sentence the values in it that hold no more, and the order of
    the newest sentence that says so.

    `vectors` [n, dimension] are the unit rows of the sentences. A correction is about the same as the sentence that it
    corrects and states another value of the same kind.
    """
    outdated: dict[int, Outdated] = {}
    valued = [place for place, sentence in enumerate(sentences) if sentence.values]
    for count, new in enumerate(valued):
        sentence, older = sentences[new], valued[:count]
        if not older or sentence.kinds & {QUESTION, NOISE}:
            continue
        likeness = vectors[older] @ vectors[new]
        scores = [_corrects(sentence, sentences[old], float(near)) for old, near in zip(older, likeness, strict=True)]
        highest = int(np.argmax(scores))
        if not scores[highest]:
            continue
        best = older[highest]
        shapes = {_shape(value) for value in sentence.values - sentences[best].values}
        gone = {value for value in sentences[best].values - sentence.values if _shape(value) in shapes}
        for old in np.flatnonzero(vectors[:new] @ vectors[best] > _ALIKE).tolist():
            if found := gone & sentences[old].values:
                before = outdated.get(sentences[old].order, (frozenset(), 0))[0]
                outdated[sentences[old].order] = before | found, sentence.order
    return outdated


def shortlist(sentences: Sequence[Sentence], limit: int) -> list[Sentence]:
    """At most `limit` sentences: the newest, those with most signals, and others chosen evenly, in their order."""
    usable = [sentence for sentence in sentences if NOISE not in sentence.kinds] or list(sentences)
    if len(usable) <= limit:
        return usable
    newest, rest = usable[-limit // 5 :], usable[: -limit // 5]
    # Of equal sentences the first would win all places, so ties are broken by a spread-out order.
    spread = {sentence.order: index * 2654435761 % 4294967296 for index, sentence in enumerate(rest)}
    ranked = sorted(rest, key=lambda one: (-one.weight - min(len(one.values), 4), spread[one.order]))
    strong, others = ranked[: limit * 3 // 5], sorted(ranked[limit * 3 // 5 :], key=lambda one: one.order)
    room = limit - len(newest) - len(strong)
    even = [others[index * len(others) // room] for index in range(min(room, len(others)))]
    return sorted([*newest, *strong, *even], key=lambda one: one.order)


class Selection:
    """Chooses sentences that together tell most: each adds what those before it have not told.

    `sentences` with their unit `vectors` [n, dimension]; `outdated` values of a sentence, by its order, count no more.
    """

    def __init__(self, sentences: Sequence[Sentence], vectors: np.ndarray, outdated: Mapping[int, Outdated]) -> None:
        self._sentences = list(sentences)
        self._place = {sentence.order: place for place, sentence in enumerate(self._sentences)}
        self._outdated = {order: values for order, (values, _) in outdated.items()}
        self._correcting = {by for _, by in outdated.values()}
        self._likeness = vectors @ vectors.T
        centre = vectors.mean(0) if len(vectors) else np.zeros(vectors.shape[1:])
        self._central = vectors @ (centre / (np.linalg.norm(centre) or 1.0))
        self._told_values: set[str] = set()
        self._told_words: set[str] = set()
        self._taken: list[int] = []

    @property
    def centrality(self) -> np.ndarray:
        """How near each sentence is to the middle of all, [n]."""
        return self._central

    def tell(self, sentences: Iterable[Sentence]) -> None:
        """Count these as told."""
        for sentence in sentences:
            self._tell(self._place[sentence.order])

    def take(self, characters: int, count: int, kind: str | None = None) -> list[Sentence]:
        """Up to `count` more sentences of `kind` (None: any), together at most `characters` long, in their order."""
        left = characters
        told = set(self._taken)
        # What a sentence adds only shrinks while others are taken, so a gain that was the best is looked at again.
        gains = [
            (-self._gain(place), place)
            for place, sentence in enumerate(self._sentences)
            if (kind is None or kind in sentence.kinds) and self._may_be_shown(sentence) and place not in told
        ]
        heapq.heapify(gains)
        chosen: list[int] = []
        while gains and len(chosen) < count and left >= _SHORTEST:
            before, place = heapq.heappop(gains)
            gain = self._gain(place)
            if gain < -before:
                if gain > 0:
                    heapq.heappush(gains, (-gain, place))
                continue
            length = self._length(place)
            if gain <= 0 or length > left or self._repeats(place):
                continue
            left -= length
            self._tell(place)
            chosen.append(place)
        return [self._sentences[place] for place in sorted(chosen)]

    def central(self, count: int, characters: int, without: frozenset[str] = frozenset()) -> list[Sentence]:
        """The most central sentences that can stand alone, no two alike, the newest message's best among them;
        those of the kinds `without` only where there are no others.
        """
        every = self._alone(characters)
        alone = [place for place in every if not self._sentences[place].kinds & without] or every
        if not alone:
            return []
        # What the chat is about is mostly said at its beginning.
        opening = {self._sentences[place].turn for place in alone[:1]}
        worth = {
            place: float(self._central[place])
            + self._sentences[place].weight / 8
            + 0.2 * (self._sentences[place].turn in opening)
            for place in alone
        }
        last = max(self._sentences[place].turn for place in alone)
        newest = max((place for place in alone if self._sentences[place].turn == last), key=worth.__getitem__)
        chosen = [newest]
        for place in sorted(alone, key=lambda one: -worth[one]):
            if len(chosen) >= count:
                break
            fits = sum(len(self._sentences[one].text) + 1 for one in (*chosen, place)) <= characters
            if fits and all(self._likeness[place, other] < _ALIKE for other in chosen):
                chosen.append(place)
        return [self._sentences[place] for place in sorted(chosen)]

    def opening(self, characters: int) -> Sentence | None:
        """The sentence that says best what the chat is about: of its first messages, by the user if there is one."""
        alone = self._alone(characters)
        if not alone:
            return None
        by_user = [place for place in alone if self._sentences[place].role == "user"] or alone
        early = [place for place in by_user if len(self._sentences[place].text.split()) >= 5][:5] or by_user[:1]
        first = self._sentences[early[0]].turn
        worth = [
            float(self._central[place]) + 0.4 * (self._sentences[place].turn == first) - 0.05 * number
            for number, place in enumerate(early)
        ]
        return self._sentences[early[int(np.argmax(worth))]]

    def outcome(self, characters: int, opening: Sentence | None) -> Sentence | None:
        """The newest decision, else the most central sentence of the chat's last third, other than the opening."""
        alone = [place for place in self._alone(characters) if self._sentences[place] is not opening]
        if not alone:
            return None
        decided = [place for place in alone if DECISION in self._sentences[place].kinds]
        if decided:
            return self._sentences[max(decided, key=lambda place: self._central[place] + place / len(self._sentences))]
        last = [place for place in alone if place >= 2 * len(self._sentences) // 3] or alone
        worth = {
            place: float(self._central[place])
            + self._sentences[place].weight / 4
            + 0.1 * min(len(self._sentences[place].values), 3)
            for place in last
        }
        return self._sentences[max(worth, key=worth.__getitem__)]

    def _alone(self, characters: int) -> list[int]:
        """The places of sentences that can stand alone and hold nothing that was corrected later."""
        alone = [
            place
            for place, sentence in enumerate(self._sentences)
            if self._may_be_shown(sentence)
            and sentence.needs is None
            and sentence.order not in self._outdated
            and len(sentence.text) <= characters
            and not sentence.text.startswith("`")
            and sentence.text.count("`") < 4
        ]
        return [place for place in alone if not _DANGLING.match(self._sentences[place].text)] or alone

    def with_needed(self, sentence: Sentence) -> list[Sentence]:
        """The sentence behind the one without which it cannot be understood, if there is one."""
        return [self._sentences[place] for place in self._with_needed(self._place[sentence.order])]

    def _may_be_shown(self, sentence: Sentence) -> bool:
        outdated = self._outdated.get(sentence.order)
        return not sentence.kinds & {NOISE, QUESTION} and (not outdated or len(sentence.values - outdated) > 0)

    def _with_needed(self, place: int) -> list[int]:
        needed = (
            self._place.get(self._sentences[place].needs or -1) if self._sentences[place].needs is not None else None
        )
        return [place] if needed is None else [needed, place]

    def _gain(self, place: int) -> float:
        sentence = self._sentences[place]
        values = len(self._news(sentence))
        words = len(sentence.words - self._told_words)
        told = sentence.weight + min(sum(map(_worth, self._news(sentence))), 5.0)
        told += 0.12 * min(words, 8) + float(self._central[place]) + (sentence.order in self._correcting)
        return told / (50 + self._length(place)) if values + words else 0.0

    def _length(self, place: int) -> int:
        """Characters that showing it adds to those that are shown already."""
        return sum(len(self._sentences[one].text) + 3 for one in self._with_needed(place) if one not in self._taken)

    def _news(self, sentence: Sentence) -> frozenset[str]:
        return sentence.values - self._told_values - self._outdated.get(sentence.order, frozenset())

    def _repeats(self, place: int) -> bool:
        if not self._taken:
            return False
        likeness = float(self._likeness[place, self._taken].max())
        news = self._news(self._sentences[place])
        return likeness > _SAME and not news or likeness > _ALIKE and not news and not self._sentences[place].kinds

    def _tell(self, place: int) -> None:
        for one in self._with_needed(place):
            self._told_values |= self._sentences[one].values
            self._told_words |= self._sentences[one].words
            self._taken.append(one)


def _corrects(new: Sentence, old: Sentence, likeness: float) -> float:
    """How surely `new` corrects `old`; 0: it does not."""
    shapes = {_shape(value) for value in new.values - old.values}
    if old.turn > new.turn or not any(_shape(value) in shapes for value in old.values - new.values):
        return 0.0
    shared = len(new.words & old.words) + len(new.values & old.values)
    if CORRECTION not in new.kinds:
        # Said once more with another value, and otherwise in the same words.
        one = len(new.values - old.values) == len(old.values - new.values) == 1
        same = shared >= 3 and not new.words ^ old.words and new.turn > old.turn and one
        return likeness if same and likeness > _ALIKE else 0.0
    near = new.turn - old.turn <= 2 and len(new.words) <= 5
    if shapes & {"day", "month"} or any(_shape(value) in ("day", "month") for value in new.values & old.values):
        return likeness + 0.1 * shared if likeness > 0.3 else 0.0
    if shared >= 2 and likeness > 0.45 or shared >= 1 and likeness > 0.6 or near and (shared or likeness > 0.3):
        return likeness + 0.1 * shared
    return 0.0


def _shape(value: str) -> str:
    """What kind of value it is, so that a number is not taken for the correction of a name."""
    if value[0].isdigit():
        return "clock" if ":" in value else "number"
    if value[:3] in _DAYS_SHORT:
        return "day"
    if value[:3] in _MONTHS_SHORT:
        return "month"
    return "path" if "/" in value else "name"


def _runs(words: Sequence[str]) -> Iterator[str]:
    for length in (1, 2, 3):
        for start in range(len(words) - length + 1):
            yield " ".join(words[start : start + length])


def _worth(value: str) -> float:
    """What a value adds: a name that is written in a way of its own is looked up more often than a plain word."""
    if value.isalpha():
        return 0.8
    return 1.4 if any(char.isalpha() for char in value) else 1.0


def _ends(text: str) -> str:
    if len(text) <= MESSAGE_CHARACTERS:
        return text
    half = MESSAGE_CHARACTERS // 2
    head, tail = text[:half], text[-half:]
    # Cut at white space, so that no half word is read.
    return (
        head[: max(head.rfind(" "), head.rfind("\n"), 0)]
        + "\n"
        + (tail.split(None, 1) + [""])[1 if " " in tail else -1]
    )


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Lines with what they are: text, item (of a list), code. Of fenced code only a few short lines are kept."""
    fenced: list[str] | None = None
    for line in text.split("\n"):
        if _FENCE.match(line):
            yield from _code(fenced or [])
            fenced = [] if fenced is None else None
        elif fenced is not None:
            fenced.append(line)
        elif len(line) > _LONGEST_LINE and " " not in line[:_LONGEST_LINE]:
            continue
        elif not line.strip() or _RULE.fullmatch(line):
            yield "", "text"
        elif _CODE_LINE.match(line) is not None:
            yield from _code([line])
        elif (item := _ITEM.match(line)) is not None:
            yield _unmarked(line[item.end() :]), "item"
        else:
            yield _unmarked(_HEADING.sub("", line)), "text"
    yield from _code(fenced or [])


def _code(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """A command or two, or a line of a log; a program is not told line by line."""
    short = [" ".join(line.split()).replace("`", "'") for line in lines if line.strip()]
    if len(short) <= 3 and not any(line.endswith((":", "{", "(", "[", "\\")) for line in short):
        yield from ((line, "code") for line in short if len(line) <= 200)


def _unmarked(line: str) -> str:
    line = line.strip().lstrip(">").strip()
    if line.startswith("|") and line.endswith("|"):
        line = ", ".join(cell.strip() for cell in line.strip("|").split("|") if cell.strip())
    return " ".join(_EMPHASIS.sub(r"\2", line).split())


def _listed(heading: str, items: Sequence[str]) -> Iterator[str]:
    """A list as sentences: short items together behind the line that introduces them."""
    if not items:
        if heading:
            yield heading.rstrip(":") + "."
        return
    whole = f"{heading} {'; '.join(item.rstrip('.;,') for item in items)}".strip()
    if heading and len(whole) <= LONGEST_SENTENCE - 20:
        yield whole + ("" if whole.endswith(("!", "?")) else ".")
        return
    for number, item in enumerate(items):
        whole = f"{heading} {item}".strip() if number == 0 and len(heading) + len(item) < LONGEST_SENTENCE else item
        yield from _split(whole)


def _split(line: str) -> Iterator[str]:
    for piece in split_line(line):
        yield from _bounded(piece)


def _bounded(piece: str) -> Iterator[str]:
    """A sentence that is not too long, or the clauses of one that is; what has no clauses is no sentence."""
    if len(piece) <= LONGEST_SENTENCE:
        if piece:
            yield piece
        return
    clauses: list[str] = []
    for clause in _CLAUSE_END.split(piece):
        if clauses and len(clauses[-1]) + len(clause) < LONGEST_SENTENCE // 2:
            clauses[-1] += " " + clause
        else:
            clauses.append(clause)
    yield from (clause for clause in clauses if 0 < len(clause) <= LONGEST_SENTENCE)


def _sentence(raw: str, message: Message, order: int, capitals: frozenset[str]) -> Sentence:
    text = raw
    while (lead := _LEAD_IN.match(text) or _CONJUNCTION.match(text)) is not None and lead.end() < len(text):
        text = text[lead.end() :]
    text = text if text.startswith("`") and text.endswith("`") else _ended(_capitalized(text))
    code = text.startswith("`")
    form = grounding.normalized(text)
    found_names = tuple(dict.fromkeys(grounding.names(raw, capitals))) if _is_plain(raw) else ()
    marked = {grounding.normalized(one) for one in (*found_names, *(a or b for a, b in _QUOTED.findall(raw)))}
    inside = {number for name in marked for number in grounding.numbers(name)}
    values = marked | set(grounding.calendar_words(form)) | (set(grounding.numbers(text)) - inside)
    words = frozenset(grounding.stem(word) for word in grounding.words_of(text) if word not in STOP_WORDS)
    kinds = frozenset(_kinds(raw, text, values, message.role)) if not code else frozenset[str]()
    weight = _weight(kinds, message.role, len(words)) - 1.2 * code - 0.6 * (not values and len(words) <= 3)
    if not _is_plain(text) or not (words or values):
        kinds, weight = kinds | {NOISE}, -5.0
    return Sentence(
        text, message.role, message.turn, order, kinds, frozenset(values), words, found_names, weight=weight
    )


def _accept(found: list[Sentence], first: int) -> None:
    """Make the last proposal of the message whose sentences begin at `first` a decision: what follows it is a yes."""
    for place in range(len(found) - 1, first - 1, -1):
        sentence = found[place]
        asked = _ASKED_PROPOSAL.match(sentence.text)
        if NOISE in sentence.kinds or not (asked or QUESTION not in sentence.kinds and _PROPOSAL.search(sentence.text)):
            continue
        text = _capitalized(asked[1]) + "." if asked else sentence.text
        kinds = sentence.kinds - {ACTION, QUESTION} | {DECISION}
        more = _KIND_WEIGHTS[DECISION] - (_KIND_WEIGHTS[QUESTION] if asked else 0.0)
        found[place] = replace(
            sentence, text=text, kinds=kinds, weight=sentence.weight + more * (kinds != sentence.kinds)
        )
        return


def _kinds(raw: str, text: str, values: set[str], role: str) -> Iterator[str]:
    question = raw.rstrip("\"'*)` ").endswith(("?", "\uff1f", "\u061f"))
    if question:
        yield QUESTION
    elif _decides(raw, role) and not _UNDECIDED.search(raw) and len(text.split()) >= 3:
        yield DECISION
    elif (
        (_PROMISE.search(raw) or _DUTY.search(raw))
        and not _NO_ACTION.search(raw)
        and not _UNDECIDED.search(raw)
        and len(text.split()) >= 4
    ):
        yield ACTION
    if not question and _CORRECTION.search(raw):
        yield CORRECTION
    if _WEIGHTY.search(text):
        yield FACT
    words = len(text.split())
    if not values and (words <= 2 or words <= 8 and _NOISE.match(raw)) or _INSTRUCTION.search(raw):
        yield NOISE


def _decides(raw: str, role: str) -> bool:
    chooses = role == "user" and _CHOICE.match(raw) and not _PROMISE.search(raw)
    return bool(chooses) or _DECISION.search(raw) is not None


def _weight(kinds: frozenset[str], role: str, words: int) -> float:
    weight = {"user": 0.4, "assistant": 0.0, "tool": -0.6, "system": -0.6}.get(role, 0.0) + min(words, 8) / 16
    for kind, worth in _KIND_WEIGHTS.items():
        weight += worth * (kind in kinds)
    # What an assistant offers to do is mostly done in its next message.
    weight -= 0.4 * (ACTION in kinds and role == "assistant")
    return weight


def _needed(sentence: Sentence, found: Sequence[Sentence], first: int) -> int | None:
    """The sentence before, where this one says «it», or answers it in a few words."""
    if not found:
        return None
    before = found[-1]
    if len(found) > first:
        depends = _DANGLING.match(sentence.text) is not None
    else:
        # The first of a message: it may answer what the other one asked.
        short = len(sentence.text.split()) <= _SHORT_WORDS
        depends = (
            QUESTION in before.kinds
            and before.role != sentence.role
            and (short or _DANGLING.match(sentence.text) is not None)
        )
    return before.order if depends and _is_plain(before.text) and len(before.text) <= 200 else None


def _names_by_capitals(messages: Sequence[Message]) -> frozenset[str]:
    """Words that are written with a capital inside sentences and never small."""
    capitals = {
        word for message in messages for line in message.text.split("\n") for word in grounding.plain_capitals(line)
    }
    small = {word for message in messages for word in message.text.split() if word.islower()}
    return frozenset(word for word in capitals if word.lower() not in small)


def _is_plain(text: str) -> bool:
    return max(map(len, text.split()), default=0) <= _LONGEST_WORD


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:] if _PLAIN_START.match(text) else text


def _ended(text: str) -> str:
    text = text.rstrip(" ,;-\u2013\u2014")
    return text if not text or _END_MARK.search(text) else text + "."
