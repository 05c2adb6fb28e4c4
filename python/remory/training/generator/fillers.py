"""Sentences of working talk that tell nothing anybody would ask for: plans, doubts, thanks, remarks, questions back."""

from __future__ import annotations

import random

from remory.training.generator.chatter import chatter
from remory.training.generator.grammar import expand, expand_any
from remory.training.generator.statements import split_lines
from remory.training.generator.words import capital, chance, pick

ACKNOWLEDGEMENTS = split_lines("""
    Understood.
    Noted.
    Got it.
    All right.
    OK.
    Fine by me.
    Thanks, that helps.
    Makes sense.
    Will do.
    Good to know.
    I will stick to that.
    Clear.
    Thanks, I have it.
    Agreed.
    Sure.
    Yes, I see.
    I will go with that.
    Right, that settles it.
    Done in a moment.
    I will take it from here.
    That is what I needed.
    Perfect, on to the next step.
    Okay, adjusting.
    I have put that down.
    Then I will proceed.
    Good, nothing more to ask.
    Copy that.
    Very well.
    I will respect that in everything that follows.
    That matches what I see.
    Thanks. I will start right away.
    Fair enough.
    Good catch.
    I had not thought of it.
    Let me work it in.
    Alright, give me a second.
    Yep.
    Mm, fine.
    Accepted, going on.
    That was quick.
    I will not forget it.
    Then that is how we do it.
    Great, one worry less.
    I see. That changes the order of things a little.
    Interesting, I would have guessed otherwise.
""")

PLANS = split_lines("""
    Let me look at the code first.
    I will read the file before I change anything.
    Next I want to see how <function> is called.
    First the small things, then the <noun>.
    Let me run the tests again.
    I will check whether <module> still imports the old helper.
    Let me search for other callers.
    I am going to split this into <number_word> smaller steps.
    Before I touch it I would like to see a failing test.
    I will start with <module> and work outward.
    Let me reproduce it locally.
    I would rather write the test first.
    I will go through the list from the top.
    The next step is to compare both outputs.
    Let me check the logs of the last run.
    I will leave <module> alone for the moment.
    Now for the part in <file>.
    I will tidy up the imports while I am there.
    Let me see what the linter says.
    Then I can drop the branch in <function>.
    I want to understand the shape of the data first.
    Let me draw up a list of what calls <function>.
    I will try the simplest thing first.
    One moment, I am checking the docs.
    Let me count the cases by hand.
    I will write a small script for it.
    Going to have a look at <path>.
    I shall rename nothing until the tests pass.
    Let me start over with a clean checkout.
    I will put a log line there and run it once more.
    After that we can see about the <noun>.
    I will draft it and you tell me what to cut.
    Let me line up the <plural> with the <plural>.
    Let me take <number_word> samples and look at them.
    I suggest we do the boring part now.
    I will bisect if it comes to that.
    The rest I would do tomorrow.
""")

REMARKS = split_lines("""
    The code around <function> is older than it looks.
    There is a comment there that nobody seems to understand.
    I have seen this pattern in <number_word> other places.
    That function does three things at once.
    Nothing in the diff looks suspicious.
    It may well be a coincidence.
    I am not sure that this explains everything.
    The naming does not help.
    Most of the file is boilerplate.
    The test suite is slow today.
    It is only a guess so far.
    None of it is urgent.
    The error message is not much use.
    It works on my side, which proves little.
    There is more dust in there than I thought.
    The history of that file would fill a novel.
    I like the second variant better, but only slightly.
    Both ways have their price.
    The docs are vague on this point.
    It could be worse.
    That would be a bigger change than it sounds.
    The first attempt was too clever.
    As far as I can tell nobody calls it.
    It reads better without the early return.
    The loop in <function> could be a comprehension.
    The helper is used <number_word> times, mostly in tests.
    I would not call it a bug, more a rough edge.
    The types are lying a bit there.
    The old <noun> had the same trouble, if I recall.
    It took me a while to see that the two lists are in different order.
    Somebody left a print statement behind.
    The output is long, I only skimmed it.
    There are <count> lines of it, most of them blank.
    That part of the code has no tests at all.
    It is the sort of thing that breaks on a <weekday>.
    The names <snake> and <snake> are too alike.
    A rewrite would be fun but is not what was asked.
    It all started as a quick hack, says the commit message.
    The <noun> of it is that nothing failed loudly.
    Someone will surely ask about it again.
    We may want to talk about that another time.
    Half of the warnings are about unused variables.
    That is a matter of taste.
    The page was slow to load, so I fetched it twice.
    At least the <plural> are in order.
    It depends on what comes before.
    The two cases are the same once you squint.
    The coverage there is thin.
    I would have expected a <error> there, but no.
    The run went through in <seconds> seconds.
    That took <seconds> s on my machine.
    I went through <small> files and found nothing of interest.
    I looked at line <line> twice.
    The cache was cold, so the timing says nothing.
    The scroll back goes on for <count> lines.
    I tried it with <small> and with <small> items, no difference.
    Line <line> of <file> is a red herring.
    Commit <commit> only touches whitespace.
    Process <line> was long gone when I looked.
    I had <service> in mind at first, but that leads nowhere.
    I opened <path> by accident and closed it again.
    The <word> in there is only an example.
    Ignore the <noun> for now.
    The parcel service was here, sorry for the pause.
    Coffee is out again, in case my answers get short.
    My editor insists on reformatting the whole file.
    It rained in on the desk, but the notes survived.
    If this works on the first try I will be suspicious.
    The build light has been red so long that it looks festive.
    Computers were a mistake, but here we are.
    The <noun> metaphor in the docs does not help either.
    Whoever wrote <function> had a good day.
""")

DOUBTS = split_lines("""
    Should I go on?
    Does that sound right?
    Do you want me to look at the callers as well?
    Is there a reason that <function> returns early?
    Shall I clean that up too?
    Was that intended?
    Or would you rather keep it as it is?
    Which of the two would you prefer?
    Is anybody still using it?
    Do we have a test for that?
    Can I assume that the input is sorted?
    Any idea what the <noun> is for?
    What should happen when the list is empty?
    Is it worth the trouble?
    Do you have the full trace?
    May I change the signature?
    Would a warning be enough there?
    Should that be public at all?
    Who could know more about it?
    Did it ever work?
    Does <module> need the same treatment?
    Have you tried it with a fresh clone?
    Shall we leave it for now?
    How sure are you about the order?
    Could you paste the part before that?
    Is the limit known to anyone?
    Is there a deadline for this at all?
    Do we know which port it uses, or is that to be found out?
    Do you happen to know who owns it?
    Has the version been settled?
    What was the timeout again? I will look it up, no need to answer.
""")

HYPOTHESES = split_lines("""
    It might be the cache, it might be the clock.
    If the <noun> were the culprit, <module> would fail too, and it does not.
    I first suspected <service>, wrongly.
    One could raise the limit, but nobody has asked for it.
    Maybe <duration> would do, maybe not; let us not decide that here.
    A timeout would look different in the log.
    I considered moving it to <folder> and dropped the idea.
    We could use <tool> for that, though I would not start with it.
    It is not the <word>, that much I believe.
    In theory <error> could come from there, in practice I have never seen it.
    Had it been the network, <host> would be red as well.
    If we had <count> of them it would matter; we have a handful.
    Something like <small> would be plausible, but that is a guess.
    Suppose <function> is called twice; then the second call finds nothing to do.
    Either the file is missing or the path is wrong, and I tend to the second.
    If the index were stale, a reload would help, and it does not.
""")

REQUESTS = split_lines("""
    Please go on.
    Can you have a look at <module>?
    Next, please check the <plural>.
    Could you run the tests once more?
    Please explain the part about <function>.
    Show me the diff before you commit.
    Can you make that shorter?
    Have a look at the log, would you?
    What do you make of this?
    Please list the open points.
    Try again with a clean build.
    Can you see why <test> is slow?
    Do the same for <module>.
    Write a test for it, please.
    Go through the <plural> and tell me if anything looks odd.
    What does the output say?
    Start with the easy ones.
    Please undo the last step.
    Can you sum up where we are?
    Let us look at <function> next.
    Could you draft the message to <owner>?
    Run it again and compare.
    Skip the <noun> for today.
    Is it finished? If so, on to the next.
    Please double check the rounding.
    Before lunch I would like to see the first half.
    Can you find out where the <word> gets lost?
    Next on the list is the clean-up of <folder>.
    Same procedure as before, please.
    Then do the rest of the <plural>.
""")


def filler(r: random.Random) -> str:
    """One sentence that holds nothing to keep."""
    if chance(r, 0.6):
        return chatter(r)
    source = pick(r, (PLANS, REMARKS, REMARKS, REMARKS, HYPOTHESES, DOUBTS))
    return expand_any(r, source)


def fillers(r: random.Random, least: int = 1, most: int = 3) -> str:
    """Some such sentences in a row, or nothing when none are drawn."""
    return " ".join(filler(r) for _ in range(r.randint(least, most)))


def acknowledgement(r: random.Random) -> str:
    """A short assent, at times followed by a plan or a question back."""
    text = pick(r, ACKNOWLEDGEMENTS)
    if chance(r, 0.45):
        text += " " + (chatter(r) if chance(r, 0.6) else expand_any(r, pick(r, (PLANS, PLANS, REMARKS, DOUBTS))))
    return text


def request(r: random.Random) -> str:
    """A message of the asking side that wants something done next."""
    text = expand_any(r, REQUESTS)
    return f"{chatter(r)} {text}" if chance(r, 0.25) else text


def plan(r: random.Random) -> str:
    """A message that says what is done next."""
    return expand_any(r, PLANS)


def around(r: random.Random, marked: str, before: float = 0.45, after: float = 0.45) -> str:
    """The marked text in a paragraph, with fillers before and after it at the given chances."""
    parts = [marked]
    if chance(r, before):
        parts.insert(0, fillers(r, 1, 2))
    if chance(r, after):
        parts.append(fillers(r, 1, 2))
    glues = ("\n", "\n\n") if "\n" in marked else (" ", " ", " ", "\n", "\n\n")
    return pick(r, glues).join(parts)


def loosen(r: random.Random, text: str) -> str:
    """Now and then the text as people type in a hurry: a small first letter, no final stop."""
    if chance(r, 0.12) and not text.startswith("[["):
        text = text[:1].lower() + text[1:]
        return text[:-1] if text.endswith(".") else text
    return text


def greet(r: random.Random, text: str) -> str:
    """Now and then a word of address before the text."""
    if not chance(r, 0.08):
        return text
    head = pick(r, ("Hello again.", "Hi.", "Back from lunch.", "So.", "Well.", "Good morning.", "Quick one:", "Hm."))
    return f"{head} {text}"


def digress(r: random.Random) -> str:
    """A remark between two roles, with a large first letter."""
    if chance(r, 0.6):
        return chatter(r)
    return capital(expand(r, pick(r, REMARKS)))
