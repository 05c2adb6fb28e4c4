"""How claims are wrapped into messages: openings, tails, voices, acknowledgements and the talk around them."""

from __future__ import annotations

import random

from remory.training.generator.talk_remarks import ADVICE, REMARKS
from remory.training.generator.talk_topics import Claim, capital, choose
from remory.training.generator.talk_values import listed

_OPENINGS = (
    "<Oh|Ah|Right|Okay|So|Well|Good>, ",
    "<By the way|Incidentally|On another note|While I think of it>, ",
    "<Before I forget|Just so you know|For your notes|To keep in mind|In case it matters later>: ",
    "<One more thing|Another point|Small addition|A detail|Side note>: ",
    "<As of today|From now on|Starting next week|Until further notice>, ",
    "<It turns out|I just heard|Word is|I checked and|We found out> that ",
    "<It was decided|We agreed|The vote said|Everybody accepted> that ",
    "<{role}|{group}|Somebody from {group}> <told me|says|insists|confirmed|wrote> that ",
    "<Let us say|Let us assume for good|Let us agree> that ",
    "<After some back and forth|After the meeting|Following the call|When I rang them>, ",
    "<Note|Remember|Mind you|Please note> that ",
    "<To be precise|In plain words|Short version|Result>: ",
    "<Unless somebody protests|If nothing changes|As long as the weather holds|Should nobody object>, ",
    "<Yes|No|Exactly|Almost|Not quite>, ",
    "<I think you should know|You will need this|Not that it is exciting, but|For the plan>: ",
    "<According to {role}|According to the letter|According to the label|Going by the note on the door>, ",
    "<Listen|Look|See|Hey>, ",
    "<I was just told|A note on my desk says|There is a mail saying|The sign reads> that ",
    "<Last point|First of all|Second|Third>: ",
    "<Whatever else happens|Regardless of the rest|In any case|Come what may>, ",
    "<My mistake earlier|To be exact|In detail>: ",
    "<Can you keep in mind|Could you remember|Would you bear in mind> that ",
    "<Good news|Bad news|News>: ",
    "<Between us|Frankly|Honestly|To be fair>, ",
    "<Since you ask|As you wanted to know|To answer that>: ",
    "<I managed to find out|I had it confirmed|I read in the papers> that ",
    "<The plan is|The idea is|The fact is|The rule is> that ",
    "<(by the way) |(important) |(new) |!! |* |- |PS: |NB: |Re: |FYI - |+ |~ |No. 1: |@all |# >",
    "<Yesterday|Today|This morning|On the phone|At lunch> <we cleared up|it came out|I learned|they announced> that ",
    "<It is|It was> <agreed|clear|certain|official> <now|at last|by now|in writing>: ",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
)
_TAILS = (
    "",
    "",
    "",
    "",
    "",
    ", <because|since|as> {reason}",
    ", <as always|as last time|for once|against my advice|after all|to be safe|at least for now|believe it or not>",
    ", <{role} insisted|nobody argued|we looked it up|I saw it myself|that much is certain>",
    " <- I hope that suits you|- that is settled|- please do not change it|- finally|, in case somebody asks>",
    ", <and that is final|and I wrote it on the board|and {role} knows|whatever the leaflet says>",
    ", <not what I told you first|so please go by that|which I find odd|which is fine with me|to my surprise>",
)
_ENDS = ".", ".", ".", ".", ".", "!", ", okay?", ", right?", "..."

# Talk that nobody would ask about later, with things in it that look as if one might.
_IDLE = (
    "<It took me|I lost|I spent> {duration} <looking for the tape|on hold|in the queue|with the forms|under the sink>.",
    "<Outside there is|This morning we had|They announced> {weather}<, as usual|| and more {weather}>.",
    "<My|Our> {animal} <drawing|sticker|mug> <fell off|got lost|is still missing> <again||somehow>.",
    "I <guess|would have guessed|had feared> <about |>{number}, but <who counts|never mind|it hardly matters>.",
    "The <radio|neighbour|newspaper|leaflet> <went on about|mentioned> {town} <and|or> {town} <all day||for an hour>.",
    "<There were|I counted> {number} <people|cars|emails|cups|flies> <before me|on the way|in the sink>, <what a "
    "day|fun>.",
    "<Somebody|{role}|A stranger> <asked|wanted to know|joked> whether {plant} <goes with|beats> {ingredient}.",
    "I <am typing this|write this> <on the {vehicle}|from {room}|with cold hands|between two calls>.",
    "<Sorry for the typos|Sorry, long message|Excuse the mess|Forgive the rambling>, <the {animal} woke me|I am "
    "tired>.",
    "The <old|first|usual> <list|draft|page> had {number} <lines|points>, half of them <doubled|crossed "
    "out|about tea>.",
    "<Do not get me started on|I will not even mention|Let us skip> the <parking|printer|paperwork|queue|coffee>.",
    "The <form|app|page> <crashed|froze|logged me out> <twice|{number} times|at {percent}>, <typical|of course>.",
    "<Last year|Years ago|Back then> <it was|we had> {money} or so, <different times|but that is history|ha>.",
    "I <read|flipped|got> <to page|as far as page> {number} and <fell asleep|gave up|stopped>.",
    "<Lunch|Dinner|Supper> was {food}, <nothing special|a bit salty|rather good|cold by then>.",
    "{weekday} <was|had been> <a mess|long|quiet|full of calls>, <I will spare you the story|enough said>.",
    "<Some say|I have heard> {percent}, <others|some> {percent}; <nobody knows|I trust neither|it is a guess>.",
    "<A {tool}|Some {material}|An old {instrument}> <was lying around|lay on the stairs>, <no idea whose|not ours>.",
    "<You know how it goes|It is what it is|So it goes|I should have known|That is life>.",
    "<Anyway|Enough of that|Back to the matter|Where was I|Moving on>.",
    "<I am glad|Good thing|Lucky> <that we talk about it|nobody slipped|there was cake|it did not rain>.",
    "<Do you|Would you|Could anyone> <ever|really> <sort that by hand|understand such letters|like that>?",
    "<The line|The room|The chat> was <noisy|full|cold|empty> and <somebody sang|I left early|it smelled of {plant}>.",
    "<For example|Say>, <if|when> it were {money} or {money}, <I would not care|we would still go|who would notice>.",
    "<My|The> <back|head|bike|laptop> <hurts|creaks|complains>, <but fine|never mind|so I keep it short>.",
    "I <tried|compared> {number} <of them|kinds|ways>, <all alike|none better|and lost the notes>.",
    "<Thanks|Thank you|Many thanks> <again|so far|for the patience|for yesterday><|, really>.",
    "<That was|It felt like> {celsius} in <there|{room}>, <by feel|I was melting|or so they joked>.",
    "The <usual|same> <discussion|joke|complaint> <came up|went round>, <nobody won|and then there was tea>.",
    "<Receipt no.|Ticket|Form|Slip> {code} <is in the bin|went through the shredder|means nothing any more>.",
)
_ACKS = (
    "<Noted|Got it|Understood|Okay|All right|Thanks|Clear|Good to know|Fine|I see>.",
    "<Noted|Got it|Understood|Okay|Thanks>, <I will work with that|I have it|that helps|I will keep to it>.",
    "<Noted|Right|Good>. <Shall I|Should I|Do you want me to> <put that in the plan|draft the note|update the list>?",
    "<Good|Fine|Great|Sensible>, <that makes it easier|that settles one point|one question less|then we can go on>.",
    "<Okay|Sure|Will do>. <Is there anything else|Anything more|What comes next|What about the rest>?",
    "<I have taken that down|I put that on the list|That is now in the plan|I changed the draft accordingly>.",
    "<That fits|That works|It fits well> with <what we have|the rest|the plan|the other points>.",
    "<Hm, unusual|Interesting|Ha|Unexpected|Not bad>, but <fine|all right|I will go by it|why not>.",
    "<Thanks for telling me|Thanks for the update|Good that you say so>. <On with it|Next point?|I will adapt "
    "the rest.>",
    "<I would have expected something else|I was about to ask|That was my next question>, <thanks|good|noted>.",
)
_PLANS = (
    "<I would|Let me|I can> <first|now|then> <make a list|write the letter|compare the offers|sketch a plan>, "
    "<then|and "
    "after that> <ask {role}|check the calendar|look at the costs|sort the rest>.",
    "<There are|I see> <two|three> <ways|options>: <do it now|wait|split it>, <or|and> <ask {group}|call "
    "{role}|leave it>.",
    "<In general|As a rule|Usually>, <people|clubs|families> <underestimate the cleaning up|start too late|buy "
    "too much>; "
    "<a buffer helps|a list helps|one person should decide>.",
    "<My suggestion|What I would do|A simple way>: <start small|begin with the list|ask around first>, <see how "
    "it goes|"
    "fix the rest later>, <and keep receipts|and write things down|and tell everybody>.",
    "<It depends on|Much hangs on> <the weather|the space|the money|who comes>. <If it is tight|If in doubt>, "
    "<ask {role}|"
    "leave some air|take the cheaper way>.",
    '<Here is a draft|A first version>: "<Dear all|Hello everybody|Dear neighbours>, <as you know|as announced>, '
    '<there will be some changes|we are making progress|we need hands>. <Details follow|More soon|Please be patient>."',
    "<Three things to check|To check>: <the lighting|the access|the forms>, <the noise|the keys|the bins>, <and|plus> "
    "<the weather|whom to call|the way home>.",
    "<I looked at it again|Thinking about it>: <nothing speaks against it|it is doable|it will be tight>, "
    "<but|and> <we "
    "should start early|somebody has to carry it|the order matters>.",
)
_WISHES = (
    "<Can you|Could you|Would you|Please> <help me plan|write a note about|make a list for|sort out|think through> ",
    "<I need|We need|I want> <a text for|an overview of|some ideas for|a checklist for> ",
    "<Today|This week|Tonight> <I have to deal with|we are busy with|it is all about> ",
    "<I am stuck with|I have a question on|I worry about|Let us talk about|Let us go on with> ",
    "<What would you do about|How do I go about|Where do I start with> ",
)


# What a clause behind "that" may begin with; others are imperatives or lists.
_SUBJECTS = listed(
    "the our this that said for in on at with as we nobody somebody it there a no what whoever from to if you I they "
    "everyone everybody people everything both each out",
    " ",
)


def idle(r: random.Random, count: int | None = None) -> str:
    """Sentences (1 to 3 unless told) that nobody needs later; they may hold numbers and names."""
    drawn = r.sample(_IDLE + REMARKS, count or r.randrange(1, 4))
    return " ".join(capital(choose(r, template)) for template in drawn)


def acknowledge(r: random.Random) -> str:
    """A short answer that repeats nothing."""
    return choose(r, r.choice(_ACKS))


def plan(r: random.Random) -> str:
    """An answer with advice of a general kind."""
    return capital(choose(r, r.choice(_PLANS + ADVICE)))


def wish(r: random.Random, thing: str) -> str:
    """A request about a thing."""
    text = choose(r, r.choice(_WISHES)) + f"the {thing}"
    return text + ("?" if text.startswith(("Can", "Could", "Would", "What", "How", "Where")) else ".")


def state(r: random.Random, claim: Claim) -> str:
    """A sentence or two with marks that state the claim, with an opening and a tail."""
    if r.random() < 0.15:
        return claim.introduced(r)
    clause = claim.clause(r)
    opening = choose(r, r.choice(_OPENINGS))
    if opening.endswith(" that ") and clause.split(" ")[0] not in _SUBJECTS and not clause.startswith("[["):
        opening = opening.removesuffix(" that ") + ": "
    tail = choose(r, r.choice(_TAILS)) if not clause.endswith("please") else ""
    if claim.value in tail or claim.value in opening:
        opening, tail = "", ""
    if r.random() < 0.06:
        return (opening + clause + tail).lower() + r.choice((".", " -", ".", "!", " ..."))
    return capital(opening + clause + tail) + r.choice(_ENDS)


def wrap(r: random.Random, stated: str) -> str:
    """The stated text with idle sentences before or after it, or none."""
    before = idle(r, r.randrange(1, 3)) + " " if r.random() < 0.45 else ""
    after = " " + idle(r, r.randrange(1, 3)) if r.random() < 0.4 else ""
    return before + stated + after
