"""Patterns of things found out or settled at work: meanings, defaults, orders of work, approaches, duties, places."""

from __future__ import annotations

import random

from remory.training.generator import entities, words
from remory.training.generator.patterns import Pattern, one_word, pattern, verb_object
from remory.training.generator.words import pick

APPROACHES = one_word("""
    a nightly batch; a message queue; polling; a webhook; a shared table; two-phase commit; a feature flag; a
    full rewrite; a thin wrapper; a materialised view; optimistic locking; a read replica; a cron script; a
    state machine; event sourcing; a lookup table; manual review; a sidecar; an in-memory cache; plain files;
    long polling; a monorepo; a proxy in front; a trigger in the database; a bloom filter; sampling; a dead
    letter queue; a schema registry
""")
TOPICS = one_word("""
    the stock sync; the price feed; sign-on; the audit trail; deduplication; the search box; the monthly
    invoices; file uploads; the reminder mails; currency rates; address checks; seat bookings; the offline mode;
    the export of reports; rate limiting; translations; session storage; the loyalty points; photo resizing; the
    waiting list; returns; the newsletter; label printing; user merging; the door access; the sensor readings;
    the shift plan; image search
""")
MEANINGS = one_word("""
    the input was empty; the lock is taken; the licence has run out; the disk is full; nothing had to be done;
    the peer hung up; the file was there already; a newer version exists; the signature is wrong; only half was
    written; the schedule was skipped; the user gave up; the key is unknown; the clock is off; the quota is used
    up; the address does not exist; the sender is blocked; the door is open; the battery is low; the sensor is
    unplugged
""")
UNIT_NAMES = one_word("""
    milliseconds; seconds; microseconds; minutes; bytes; kilobytes; pixels; cents; metres; degrees; percent;
    points; nanoseconds; hours; pages; blocks; ticks; lines; kelvin; watts; litres; grams; basis points; inches
""")
WHOLES = one_word("""
    unit price; net weight; birth date; last login; number of guests; postal code; account balance; shelf
    number; exchange rate; order state; delivery window; body temperature; distance travelled; tax class; seat
    row; room key; parent id; time of reading; retry delay; invoice total; batch number; battery charge; tank
    level; customer group
""")


def _channel(r: random.Random) -> str:
    return f"#{words.kebab(r)}"


def _small_number(r: random.Random) -> str:
    return str(r.randint(2, 140))


def _prefix(r: random.Random) -> str:
    return f"{words.code_word(r)}{pick(r, ('/', '-', '_', ':', '.'))}"


def _letters(r: random.Random) -> str:
    return "".join(pick(r, "ABCDEFGHIKLMNOPRSTUVW") for _ in range(r.randint(3, 4)))


def _spelled(r: random.Random) -> str:
    return " ".join(words.code_word(r) for _ in range(3))


FINDINGS: tuple[Pattern, ...] = (
    pattern(
        {"x": APPROACHES, "y": TOPICS, "z": APPROACHES},
        """For [[{y}]] we [[go with]] [[{x}]], not {z}.
        [[{y}]] will be [[done]] with [[{x}]].
        I compared {z} and [[{x}]] for [[{y}]]; the [[second]] is simpler.
        <owner> turned down {z}. [[{y}]] [[gets]] [[{x}]].
        [[Decision]] on [[{y}]]: [[{x}]].
        As to [[{y}]], we [[dropped]] {z} in favour of [[{x}]], because <reason>.
        [[{x}]] is how we [[solve]] [[{y}]].
        [[{y}]]: {z}? Too much work. [[{x}]]? Good enough, [[taken]].
        ADR <digit>\\nContext: [[{y}]]\\n[[Decision]]: [[{x}]]\\nRejected: {z}""",
        "user assistant tool",
        x="""decision
        How do we solve {y}?
        What did we decide on for {y}?
        Which approach was taken for {y}?
        With what will {y} be done?
        What was the decision on {y}?""",
    ),
    pattern(
        {"x": MEANINGS, "y": _small_number, "z": words.service},
        """[[Exit code]] [[{y}]] of [[{z}]] means that [[{x}]].
        When [[{z}]] ends with [[{y}]], [[{x}]].
        [[{z}]] returns [[{y}]] if [[{x}]].
        [[{z}]]: [[{y}]] = [[{x}]]
        A [[{y}]] from [[{z}]] is no bug; it says that [[{x}]].
        If [[{x}]], [[{z}]] exits with [[{y}]].
        The table in the docs of [[{z}]] has [[{y}]] for this: [[{x}]].""",
        x="""meaning
        What does code {y} of {z} mean?
        What does it say when {z} ends with {y}?
        How is a {y} from {z} to be read?
        Why would {z} return {y}?""",
    ),
    pattern(
        {"x": UNIT_NAMES, "y": entities.setting},
        """[[{y}]] is given in [[{x}]].
        Mind that [[{y}]] is in [[{x}]], not what you would think.
        The [[unit]] of [[{y}]] is [[{x}]].
        [[{y}]] counts [[{x}]].
        [[{y}]]  # [[unit]]: [[{x}]]
        They changed [[{y}]] to [[{x}]] in <version>.
        Numbers in [[{y}]] are [[{x}]]; I multiplied by the wrong factor at first.
        A bare number in [[{y}]] is taken as [[{x}]].""",
        x="""unit
        In which unit is {y} given?
        What does {y} count?
        What is the unit of {y}?
        As what is a number in {y} taken?""",
    ),
    pattern(
        {"x": words.short_duration, "y": entities.setting},
        """[[{y}]] [[defaults]] to [[{x}]].
        Without a value, [[{y}]] is [[{x}]] by [[default]].
        If you leave [[{y}]] out, you get [[{x}]].
        The [[default]] of [[{y}]] went to [[{x}]].
        [[{y}]] ([[default]] [[{x}]])
        We [[ship]] [[{y}]] at [[{x}]].
        Out of the box [[{y}]] is [[{x}]].""",
        x="""default
        What is the default of {y}?
        What do I get if I leave {y} out?
        At what value is {y} out of the box?
        What does {y} amount to when nobody sets it?""",
    ),
    pattern(
        {"x": WHOLES, "y": words.snake, "z": words.pascal},
        """[[{y}]] in [[{z}]] [[holds]] the [[{x}]].
        The column [[{y}]] of [[{z}]] is the [[{x}]].
        In [[{z}]] the [[{x}]] is [[called]] [[{y}]].
        [[{z}]].[[{y}]]: the [[{x}]]
        What they [[mean]] by [[{y}]] in [[{z}]] is the [[{x}]].
        Do not be fooled, [[{y}]] in [[{z}]] is really the [[{x}]].""",
        x="""meaning
        What does {y} hold in {z}?
        What is meant by {y} in {z}?
        What is behind the column {y} of {z}?
        What do I find in {y} of {z}?""",
    ),
    pattern(
        {"x": _channel, "y": TOPICS},
        """Questions on [[{y}]] go to [[{x}]].
        The [[channel]] for [[{y}]] is [[{x}]].
        [[{x}]] is where [[{y}]] is [[discussed]].
        We [[opened]] [[{x}]] for [[{y}]].
        [[Post]] about [[{y}]] in [[{x}]], please.
        [[{y}]] moved to [[{x}]], the old [[channel]] is archived.""",
        "user assistant",
        x="""channel
        In which channel is {y} discussed?
        Where do I post about {y}?
        To what channel do questions on {y} go?
        Which channel was opened for {y}?""",
    ),
    pattern(
        {"x": entities.job, "y": entities.job},
        """[[{x}]] must [[run before]] [[{y}]].
        [[{y}]] has to [[wait]] for [[{x}]].
        Start [[{y}]] only [[after]] [[{x}]].
        First [[{x}]], [[then]] [[{y}]]; never the other way round.
        [[{y}]] [[depends]] on [[{x}]] being through.
        [[{x}]] -> [[{y}]] (in this [[order]])""",
        x="""job
        For what does {y} have to wait?
        What must run before {y}?
        After which job may {y} start?
        What comes ahead of {y}?""",
    ),
    pattern(
        {"x": words.owner, "y": words.weekday, "z": words.place},
        """On [[{y}]] [[{x}]] is [[on call]] for [[{z}]].
        [[{x}]] has the [[pager]] of [[{z}]] on [[{y}]].
        [[{z}]], [[{y}]]: [[{x}]] on [[duty]].
        If [[{z}]] calls on [[{y}]], [[{x}]] [[picks up]].
        The [[rota]] has [[{x}]] at [[{z}]] on [[{y}]].
        [[{y}]] is [[covered]] by [[{x}]] in [[{z}]].""",
        x="""team
        Who is on call for {z} on {y}?
        Who has duty on {y} in {z}?
        Who picks up when {z} calls on {y}?
        Who covers {y} at {z}?""",
    ),
    pattern(
        {"x": words.code, "y": entities.environment},
        """[[Test]] on [[{y}]] with [[account]] [[{x}]].
        For trials in [[{y}]] use the [[account]] [[{x}]], nothing else.
        The [[dummy]] customer of [[{y}]] is [[{x}]].
        [[{x}]] is free for [[experiments]] in [[{y}]].
        In [[{y}]] you may break [[{x}]], it is a [[test account]].
        [[{y}]]: [[test account]] [[{x}]].""",
        x="""account
        Which account may I use for trials in {y}?
        What is the test account of {y}?
        What is free for experiments in {y}?
        Which customer in {y} is not a real one?""",
    ),
    pattern(
        {"x": _prefix, "y": TOPICS},
        """[[Branches]] for [[{y}]] start with [[{x}]].
        Please [[prefix]] everything on [[{y}]] with [[{x}]].
        The [[prefix]] for [[{y}]] is [[{x}]].
        [[Keys]] that belong to [[{y}]] begin with [[{x}]].
        [[{x}]] at the [[front]] of a name means [[{y}]].
        Names: [[{x}]] for [[{y}]] ([[prefix]]).""",
        "user assistant",
        x="""prefix
        With what do names for {y} start?
        What is the prefix for {y}?
        How do I begin a name that belongs to {y}?
        What must be put in front for {y}?""",
    ),
    pattern(
        {"x": _spelled, "y": _letters},
        """[[{y}]] [[stands for]] [[{x}]].
        By [[{y}]] they [[mean]] "[[{x}]]".
        [[{y}]] is [[short]] for [[{x}]].
        I looked [[{y}]] up: [[{x}]].
        [[{y}]] = [[{x}]]
        [[{x}]], or [[{y}]] for [[short]], is what the log is full of.""",
        x="""abbreviation
        What does {y} stand for?
        What is {y} short for?
        How is {y} spelled out?
        What do they mean by {y}?""",
    ),
    pattern(
        {"x": words.url, "y": TOPICS},
        """The [[page]] on [[{y}]] is [[{x}]].
        [[{y}]] is [[documented]] at [[{x}]].
        See [[{x}]] for [[{y}]] ([[docs]]).
        I put the [[write-up]] of [[{y}]] on [[{x}]].
        [[{x}]] has the [[dashboard]] of [[{y}]].
        [[Link]] for [[{y}]]: [[{x}]]""",
        x="""link
        Where is the page on {y}?
        Under what link do I find {y}?
        What is the address of the write-up on {y}?
        Which URL do I open for {y}?""",
    ),
    pattern(
        {"x": words.colour, "y": words.service, "z": words.code_word},
        """The [[{x}]] [[curve]] in the {z} chart is [[{y}]].
        [[{y}]] is drawn in [[{x}]] on the {z} panel ([[colour]]).
        On the {z} board, [[{x}]] [[stands]] for [[{y}]].
        [[{y}]] has the [[{x}]] [[line]], the rest is noise.
        Look for the [[{x}]] [[bars]]; they belong to [[{y}]].""",
        "assistant user",
        x="""colour
        In which colour is {y} drawn?
        What colour stands for {y}?
        Which line or bar belongs to {y}, by colour?
        How do I recognise {y} in the chart?""",
    ),
    pattern(
        {"x": words.stamp, "y": entities.job},
        """[[{y}]] last [[succeeded]] at [[{x}]].
        The [[last good]] run of [[{y}]] was [[{x}]].
        Since [[{x}]] [[{y}]] has not [[finished]] once.
        [[{y}]]: [[last success]] [[{x}]]
        [[{x}]] is when [[{y}]] [[went through]] for the last time.""",
        "assistant tool",
        x="""time
        When did {y} last succeed?
        When was the last good run of {y}?
        Since when has {y} not finished?
        When did {y} go through for the last time?""",
    ),
    pattern(
        {"x": words.small_count, "y": words.product},
        """[[{x}]] [[tests]] still [[fail]] on [[{y}]].
        [[{y}]] is down to [[{x}]] [[open bugs]], in terms of failing tests.
        On [[{y}]] we are left with [[{x}]] [[red]] tests.
        [[Failing]] on [[{y}]]: [[{x}]].
        Of <count> tests, [[{x}]] [[break]] on [[{y}]].""",
        "assistant tool",
        x="""number
        How many tests fail on {y}?
        How many red tests are left on {y}?
        What number of tests break on {y}?
        With how many failing tests does {y} stand?""",
    ),
    pattern(
        {"x": verb_object, "y": words.owner},
        """[[{y}]] [[asked]] us to [[{x}]].
        We [[promised]] [[{y}]] to [[{x}]].
        [[{y}]] would like us to [[{x}]], that is the whole [[wish]].
        [[{x}]] - a [[favour]] for [[{y}]].
        There is a [[request]] from [[{y}]]: [[{x}]].
        [[{y}]] is [[waiting]] for us to [[{x}]].""",
        x="""task
        What did {y} ask us to do?
        What did we promise {y}?
        What does {y} want from us?
        For what is {y} waiting?""",
    ),
    pattern(
        {"x": words.kebab, "y": entities.endpoint},
        """[[{y}]] needs the [[header]] [[{x}]].
        Without the [[header]] [[{x}]], [[{y}]] answers 400.
        [[Send]] [[{x}]] along with every call of [[{y}]].
        [[{y}]] looks at one [[header]] only, [[{x}]].
        [[{x}]] must be [[set]] when calling [[{y}]].""",
        x="""header
        Which header does {y} need?
        What must be sent along with a call of {y}?
        At which header does {y} look?
        What is missing when {y} answers 400?""",
    ),
)
