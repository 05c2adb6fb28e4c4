"""Scenes of talk whose facts are reasons, sources, conditions, orders of steps, errands, nicknames and proposals."""

from __future__ import annotations

import random
from collections.abc import Sequence

from remory.training.generator.talk_forms import acknowledge, idle, plan, state, wish
from remory.training.generator.talk_told import as_stated, bare, facts_of
from remory.training.generator.talk_topics import FIELDS, Claim, capital, choose, draw_claim, draw_entity
from remory.training.generator.talk_values import VALUES, listed
from remory.training.sessions import Fact, Scene, Turn, say, scene

_CONDITIONS = listed(
    "it rains,it snows,the ferry is cancelled,nobody shows up,the key is missing,the heating fails,we are late,"
    "more than half are ill,the vote is tied,the power goes,the shop is shut,the road is blocked,it gets too hot,"
    "the first try fails,the supplier cannot deliver,a holiday falls on it,the budget is cut,the stock runs out,"
    "guests bring children,the battery is low,the wind turns,the paint is not dry,someone complains,it is full"
)
_ERRANDS = (
    ("return", "returned"),
    ("send", "sent"),
    ("show", "shown"),
    ("lend", "lent"),
    ("post", "posted"),
    ("hand over", "handed over"),
    ("give back", "given back"),
    ("forward", "forwarded"),
    ("deliver", "delivered"),
    ("sell", "sold"),
    ("bring", "brought"),
    ("present", "presented"),
)
_GOODS = listed(
    "ladder,casserole dish,signed form,spare tyre,sewing pattern,seed packets,tent pegs,hymn books,extension lead,"
    "sample jar,photo prints,guest book,cake stand,floor plan,wheelbarrow,key ring,costume rack,fishing rod,drill bits,"
    "map roll,score sheets,membership list,old stamps,umbrella,projector,garden shears,thermos,first draft,loom parts"
)


def explain(r: random.Random) -> Scene:
    """A claim with the reason for it; both may be asked for."""
    claim = draw_claim(r)
    while not claim.short:
        claim = draw_claim(r)
    reason = VALUES["reason"](r)
    noun, entity = claim.attribute.noun, claim.entity
    told = r.choice(
        (
            f"{claim.clause(r)}, and the reason is that [[{reason}]].",
            f"{claim.clause(r)}. Why? Because [[{reason}]].",
            f"we settled on this since [[{reason}]]: {claim.clause(r)}.",
            f"as [[{reason}]], {claim.clause(r)}.",
            f"{claim.clause(r)}, for one simple reason: [[{reason}]].",
            f"{claim.clause(r)}. Background: [[{reason}]].",
        )
    )
    asks = (
        f"Why did it become just this {noun} for the {entity}?",
        f"What is the reason behind the {noun} of the {entity}?",
        f"What speaks for the {noun} that the {entity} has?",
        f"What was the ground for our choice of {noun} with the {entity}?",
    )
    turns = (say("user", capital(told)), say("assistant", acknowledge(r)))
    return scene(turns, (claim_fact(r, claim, turns), Fact(asks, as_stated(turns, reason), "reason")))


def claim_fact(r: random.Random, claim: Claim, turns: Sequence[Turn]) -> Fact:
    """The fact of a claim with the answer as the turns state it."""
    fact = claim.fact(r)
    return Fact(fact.questions, as_stated(turns, fact.answer), fact.kind)


def source(r: random.Random) -> Scene:
    """Who told something is a fact of its own."""
    claim = draw_claim(r)
    who = VALUES[r.choice(("role", "group"))](r)
    while who == claim.value or who[4:] in claim.entity:
        who = VALUES["role"](r)
    said = claim.clause(r)
    told = r.choice(
        (
            f"I have it from [[{who}]]: {said}.",
            f"[[{who}]] told me that {said}.",
            f"{said}. I know that from [[{who}]].",
            f"{said}, at least [[{who}]] says so.",
            f"it was [[{who}]] who found out: {said}.",
            f"{said} (source: [[{who}]]).",
        )
    )
    noun, entity = claim.attribute.noun, claim.entity
    asks = (
        f"From whom do I have the {noun} of the {entity}?",
        f"Who told us about the {noun} of the {entity}?",
        f"Who is the source for the {noun} of the {entity}?",
        f"Whose word is it on the {entity} and its {noun}?",
    )
    turns = (say("user", capital(told)), say("assistant", acknowledge(r)))
    return scene(turns, (claim_fact(r, claim, turns), Fact(asks, as_stated(turns, who), "source")))


def conditional(r: random.Random) -> Scene:
    """Something holds under a condition, at times something else under another one."""
    first = draw_claim(r)
    claims = [first]
    if r.random() < 0.5:
        claims.append(draw_claim(r, entity=first.entity, attribute=first.attribute, avoid=(first.value,)))
    conditions = r.sample(_CONDITIONS, len(claims))
    parts = []
    for claim, condition in zip(claims, conditions, strict=True):
        parts.append(
            r.choice(
                (
                    f"if [[{condition}]], {claim.clause(r)}",
                    f"{claim.clause(r)} in case [[{condition}]]",
                    f"should we find that [[{condition}]], {claim.clause(r)}",
                    f"when [[{condition}]], then {claim.clause(r)}",
                    f"{claim.clause(r)}, but only if [[{condition}]]",
                )
            )
        )
    turns = (say("user", " ".join(capital(part) + "." for part in parts)), say("assistant", acknowledge(r)))
    facts = []
    for claim, condition in zip(claims, conditions, strict=True):
        first_ask, *rest = (ask.replace("{e}", claim.entity)[:-1] for ask in claim.attribute.asks)
        asks = [f"{ask} if {condition}?" for ask in (first_ask, *rest)]
        asks.append(f"Suppose {condition}. {first_ask}?")
        asks.append(f"Which {claim.attribute.noun} holds for the {claim.entity} when {condition}?")
        if claim.value.lower() in condition.lower():
            return conditional(r)
        facts.append(Fact(tuple(asks), as_stated(turns, claim.value), claim.kind))
    return scene(turns, facts)


def _steps(r: random.Random) -> list[str]:
    steps: list[str] = []
    while len(steps) < 3:
        step = VALUES["step"](r)
        if step not in steps:
            steps.append(step)
    return steps


def sequence(r: random.Random) -> Scene:
    """The order of some steps is fixed; what comes first, next or last may be asked for."""
    thing = draw_entity(r, r.choice(FIELDS))
    steps = _steps(r)
    one, two, three = (f"[[{step}]]" for step in steps)
    told = r.choice(
        (
            f"Order for the [[{thing}]]: {one}, {two}, {three}.",
            f"With the [[{thing}]], {one} first, then {two}, and at the end {three}.",
            f"For the [[{thing}]]:\n1. {one}\n2. {two}\n3. {three}",
            f"Before the [[{thing}]] we {one}. After that we {two}. Only then we {three}.",
            f"[[{thing}]]: {one} -> {two} -> {three}",
            f"Nobody may {three} for the [[{thing}]] before we {two}, and all of it begins with this: {one}.",
        )
    )
    facts = [
        Fact(
            (
                f"What comes first for the {thing}?",
                f"With what do we begin on the {thing}?",
                f"Which step opens the work for the {thing}?",
            ),
            steps[0],
            "step",
        ),
        Fact(
            (
                f"What is the last step for the {thing}?",
                f"With what do we end on the {thing}?",
                f"What is done at the very end for the {thing}?",
            ),
            steps[2],
            "step",
        ),
        Fact(
            (
                f"For the {thing}, what follows after we {steps[0]}?",
                f"What do we do on the {thing} between the first and the last step?",
                f"What is the middle step for the {thing}?",
            ),
            steps[1],
            "step",
        ),
    ]
    turns = [say("user", capital(told)), say("assistant", acknowledge(r))]
    if r.random() < 0.3:
        turns = [say("user", wish(r, thing)), say("assistant", capital(told)), say("user", acknowledge(r))]
    return scene(turns, [Fact(f.questions, as_stated(turns, f.answer), f.kind) for f in facts])


def errand(r: random.Random) -> Scene:
    """Something has to go to somebody by some day."""
    verb, done = r.choice(_ERRANDS)
    thing = f"{r.choice(('borrowed', 'blue', 'old', 'second', 'heavy', 'club', 'green', 'clean'))} {r.choice(_GOODS)}"
    who, day = VALUES[r.choice(("role", "group"))](r), VALUES[r.choice(("weekday", "date", "month"))](r)
    told = r.choice(
        (
            f"I still have to [[{verb}]] the [[{thing}]] to [[{who}]] before [[{day}]].",
            f"The [[{thing}]] must be [[{done}]] to [[{who}]], latest [[{day}]].",
            f"Do not let me forget: [[{verb}]] the [[{thing}]] to [[{who}]], [[{day}]].",
            f"[[{who}]] expects the [[{thing}]] to be [[{done}]], not later than [[{day}]].",
            f"To do - [[{verb}]] [[{thing}]] - [[{who}]] - [[{day}]]",
            f"Until [[{day}]] the [[{thing}]] has to be [[{done}]]. It goes to [[{who}]].",
        )
    )
    to_whom = (
        f"To whom must the {thing} be {done}?",
        f"Who gets the {thing}?",
        f"Who waits for the {thing}?",
        f"Where does the {thing} go?",
    )
    by_when = (
        f"By when must the {thing} be {done}?",
        f"What is the last day for the {thing}?",
        f"How long do I have for the errand with the {thing}?",
    )
    turns = (
        say("user", (idle(r, 1) + " " if r.random() < 0.4 else "") + capital(told)),
        say("assistant", acknowledge(r)),
    )
    return scene(turns, (Fact(to_whom, as_stated(turns, who), "role"), Fact(by_when, as_stated(turns, day), "date")))


def nickname(r: random.Random) -> Scene:
    """A short name is agreed for a thing."""
    entity = draw_entity(r, r.choice(FIELDS))
    nick = r.choice((VALUES["pseudo"], VALUES["animal"], VALUES["colour"], VALUES["plant"]))(r)
    while nick.lower() in entity.lower():
        nick = VALUES["pseudo"](r)
    told = r.choice(
        (
            f"When I say [[{nick}]], I [[mean]] the [[{entity}]].",
            f"We [[call]] the [[{entity}]] [[{nick}]] among ourselves.",
            f"[[{nick}]] is our [[word]] for the [[{entity}]].",
            f"[[{nick}]] ([[short for]] [[{entity}]])",
            f"The [[{entity}]] goes by the [[nickname]] [[{nick}]] here.",
            f"In my notes [[{nick}]] [[stands for]] the [[{entity}]].",
        )
    )
    turns = (say("user", capital(told)), say("assistant", acknowledge(r)))
    by_nick = (f"What do I mean by {nick}?", f"What does {nick} stand for?", f"Which thing is {nick} in my notes?")
    if r.random() < 0.5 and not any(entity.lower() in ask.lower() for ask in by_nick):
        return scene(turns, (Fact(by_nick, as_stated(turns, entity), "meaning"),))
    asks = (
        f"What do we call the {entity}?",
        f"What is our short name for the {entity}?",
        f"How is the {entity} called here?",
    )
    return scene(turns, (Fact(asks, as_stated(turns, nick), "name"),))


def propose(r: random.Random) -> Scene:
    """The assistant proposes and the user agrees: what was proposed holds."""
    claim = draw_claim(r)
    lead = choose(r, "<I propose|My idea|Suggestion|How about this|I would fix it like this|Let me put it so>: ")
    yes = choose(
        r,
        "<Yes, do it like that|Agreed|Perfect, that is how we do it|Good, fixed|Deal|Fine by me, it stands|So be it>"
        "<.|!|. {number} others agree.>",
    )
    text = lead + claim.clause(r) + "."
    return facts_of(r, (say("user", wish(r, claim.entity)), say("assistant", text), say("user", yes)), (claim,))


def refuse(r: random.Random) -> Scene:
    """The assistant proposes and the user refuses: nothing holds."""
    claim = draw_claim(r)
    lead = choose(r, "<I propose|My idea|Suggestion|How about this|I would fix it like this|Let me put it so>: ")
    no = choose(
        r, "<No|Rather not|Nope|I do not like it|Certainly not>, <leave it open|we will see|ask me later|drop it>."
    )
    turns = (say("user", wish(r, claim.entity)), say("assistant", lead + bare(claim.clause(r)) + "."), say("user", no))
    return scene(turns)


def reply(r: random.Random) -> Scene:
    """A question in full words, answered in a sentence that says "it"."""
    claim = draw_claim(r)
    ask = r.choice(claim.attribute.asks).replace("{e}", f"[[{claim.entity}]]")
    told = claim.fill(r.choice(claim.attribute.says).replace("the {e}", "it"))
    start, other = r.choice((("user", "assistant"), ("assistant", "user")))
    unsure = choose(r, "<|||Hm. |Wait... |Let me look. |I had to ask. |Sure. |Oh, that. ||>")
    turns = [say(start, ask), say(other, unsure + capital(told) + ".")]
    if r.random() < 0.5:
        turns.append(say(start, r.choice((acknowledge(r), plan(r)))))
    return facts_of(r, turns, (claim,))


def interrupt(r: random.Random) -> Scene:
    """A claim is begun, something comes between, and it is finished later."""
    claim = draw_claim(r)
    begun = r.choice(
        (
            f"About the [[{claim.entity}]], there is something on the [[{claim.attribute.noun}]]. Wait, the door.",
            f"I wanted to tell you the [[{claim.attribute.noun}]] of the [[{claim.entity}]], but I have to look it up.",
            f"The [[{claim.attribute.noun}]] of the [[{claim.entity}]]... one moment, the phone.",
            f"Hold on, I will send the [[{claim.attribute.noun}]] for the [[{claim.entity}]] in a minute.",
        )
    )
    value = f"[[{claim.value}]]"
    ended = r.choice(
        (
            f"Back. It is {value}.",
            f"So: {value}.",
            f"Here it is: {value}.",
            f"{value}, I have it in front of me now.",
            f"Right, where was I? {value}.",
            f"Found it. {value}.",
        )
    )
    between = [say("assistant", acknowledge(r))]
    if r.random() < 0.4:
        between += [say("user", idle(r, 1)), say("assistant", acknowledge(r))]
    return facts_of(r, (say("user", begun), *between, say("user", capital(ended))), (claim,))


def summary(r: random.Random) -> Scene:
    """A round-up of what several people said, each with one thing."""
    claims: list[Claim] = []
    for _ in range(r.choice((2, 3))):
        taken = [text for claim in claims for text in (claim.value, claim.entity)]
        claims.append(draw_claim(r, avoid=taken))
    lines = []
    for claim in claims:
        who = r.choice((VALUES["role"], VALUES["group"], VALUES["weekday"]))(r)
        lines.append(f"{capital(who)}: {state(r, claim)}")
    mark = r.choice(("- ", "* ", "> ", "", "# "))
    lead = choose(r, "<Round-up|What came in|My notes|From the calls|The week so far>:\n")
    role = r.choice(("user", "user", "assistant"))
    turns = [say("user", choose(r, "<Anything new|What did I miss|News>?"))] if role == "assistant" else []
    turns.append(say(role, lead + "\n".join(mark + line for line in lines)))
    return facts_of(r, turns, claims)


TURNS = (explain, source, conditional, sequence, errand, nickname, propose, propose, reply, reply, interrupt, summary)
OPEN = (refuse, refuse)
