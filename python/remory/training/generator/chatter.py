"""Sentences put together from parts that hold nothing to keep, so that no two sessions talk alike.

A sentence is an opening, a clause and a tail, each out of many; the clauses have slots for names and numbers of no
consequence, since those who read must not take everything rare for a fact.
"""

from __future__ import annotations

import random

from remory.training.generator.grammar import expand
from remory.training.generator.statements import split_lines
from remory.training.generator.words import capital, chance, pick

_HEADS = split_lines("""
    as far as I can see,
    honestly,
    hm,
    so far
    on second thought
    to be fair,
    at first sight
    at least here
    oddly enough,
    in passing:
    on my side
    if I read it right,
    after a closer look
    with some luck
    as usual,
    of course
    I think
    I suppose
    it seems that
    it looks as if
    I have the feeling that
    no surprise:
    the short version:
    strictly speaking,
    again
    somehow
    by the look of it,
    in the meantime
    in hindsight
    from the outside
    between us,
    to my relief
    luckily
    unfortunately
    maybe
    presumably
    what I see is that
    my impression is that
    sadly
    for whatever reason
    given the hour,
    all things considered,
""")
_TAILS = split_lines("""
    , but that can wait
    , which is odd
    , as so often
    , and that is fine
    , for what it is worth
    , or so it seems
    , though I may be wrong
    , nothing dramatic
    , so let us not dwell on it
    , and I will leave it there
    , not that it matters
    , which explains little
    , to nobody's surprise
    , more or less
    , at least for the moment
    , like last time
    , as expected
    , no idea why
    , and that was it
    and nothing else
    , so no change there
    , which I find reassuring
    , but do not quote me on that
    , hence the silence
    , so I moved on
    , and the world kept turning
    , if that makes sense
""")
_SUBJECTS = split_lines("""
    the <word> code
    the loop in <function>
    the helper around <camel>
    the <adjective> part of <file>
    the second half of the <word> tests
    my draft of the <word> page
    the <plural> list
    the way <function> treats its <plural>
    the diff for <file>
    the history of <module>
    the <word> view
    the wording of the <noun> page
    the script in <folder>
    the output of <tool>
    the check on <host>
    the tab with the <plural>
    the comment above <function>
    the type of <snake>
    the sketch with the <noun>
    the <word>/<word> split
    the old <word> dump
    the picture with the <adjective> <noun>
    whatever <service> prints there
    the tail of the <word> log
    the name <camel>
    the import of <snake>
    the <noun> example
    the list that <owner> sent
    the chart for <weekday>
    the mock-up
    the retry branch
    the order of the <plural>
    the first paragraph
    the remaining <plural>
    the page on <tool>
    the snippet from <file>
    the whole <noun> business
""")
_PREDICATES = split_lines("""
    looks fine to me
    reads like a first draft
    is longer than it has to be
    makes sense once you have seen it twice
    has not changed in a long while
    could do with a comment
    is a bit of a maze
    does what it says
    is neither good nor bad
    raises more questions than it answers
    is where I would look last
    gives me no clue
    has seen better days
    is best left alone
    took me <number_word> readings
    came out the same after <small> runs
    needs <seconds> seconds to load on my side
    scrolls past for <count> lines
    is fine apart from a typo in line <line>
    is mostly about <plural>
    does not mention <service> at all
    never gets as far as <function>
    has <small> todo marks in it
    was last touched in <commit>
    repeats itself
    reminds me of <product>
    shows <small> entries, none of them new
    is empty, apart from a header
    ends in the middle of a word
    matches the one in <folder>
    is the same as on <host>
    could be split in <number_word>
    is half generated, half written by hand
    has a different style from the rest
    shows nothing out of the ordinary
    is hard to tell apart from <camel>
    uses <tool> in a way I had not met before
    grew by <bytes> bytes, mostly blanks
    compiles without complaint
    will need a second look
    can stay as it is
    comes up every few weeks
    is on my list, far down
    would be nice to have in colour
    is on the screen in front of me
    got me nowhere
    goes back to an experiment
    leaves me a little puzzled
    prints <ms> and <ms>, which is noise
    has <digit> callers, all of them tests
""")
_ACTIONS = split_lines("""
    I went through <small> of the <plural> by hand
    I opened <file> and closed it again
    I compared <path> with the copy on <host>
    I read <function> from top to bottom
    I ran the <word> tests <number_word> times
    I let it run for <seconds> seconds and saw nothing
    I started <tool> with <flag> and got the usual
    I put a breakpoint into <camel>
    I asked around and nobody minded
    I skimmed the thread of <owner>
    I jotted down <small> ideas, most of them bad
    I tried it with <line> and then with <line>
    I cleared the screen and began anew
    I printed the <plural>, all <count> of them
    I looked for <error> in the logs and found none
    I walked through the <noun> case once more
    I renamed a variable and renamed it back
    I replayed request <code>, without effect
    I left the <word> tab open
    I swapped the <plural> around, no difference
    I was about to blame <service>
    I stepped through <function> as far as line <line>
    I checked out <branch> for a moment
    I hovered over the merge button
    I drew the thing on paper
    I waited for <host> to answer a ping, <ms> ms
    I measured <ms> ms, then <ms> ms, then stopped
    I searched for "<word> <word>" and got <count> hits
    I threw away the first attempt
    I pasted <small> lines into a scratch file
    I had lunch next to the <adjective> <noun>
    I watched the bar crawl to <percentage>
""")
_INTENTIONS = split_lines("""
    let me look at <function> again
    I will go on with <file>
    I am going to read <module> next
    I would start at the <word> end
    let me list the <plural> first
    I will see what <tool> makes of it
    let me put the <plural> side by side
    I want to look at the callers of <camel>
    I will come back to the <noun> afterwards
    let me think about the <word> case for a minute
    I will try a smaller input
    let me do the dull half first
    I am looking into <path> now
    I will check the neighbours of line <line>
    let me read what the docs say on <plural>
    I will keep the change as small as I can
    let me write that down somewhere
    I shall begin with <test>
    let me open a shell on <host>
    I will skim <count> lines of log, wish me luck
    let me fetch the <plural> once more
    I will draft a reply to <owner>
    I am rerunning it with <flag>
    let me strip it down to <number_word> lines
    we can go through the <plural> one at a time
    I will stash this and try the other way
""")
_QUESTIONS = split_lines("""
    does <function> still need its second argument?
    is there a nicer name for <camel>?
    why are the <plural> in there at all?
    has anybody looked at <file> lately?
    do we want a test for the <word> case?
    what happens to the <plural> afterwards?
    could <tool> do that for us?
    is it normal that <service> says nothing?
    should I carry on with <module>?
    would <owner> mind?
    how much of that is still true?
    where do the <plural> come from in the first place?
    which of the <plural> do you mean?
    who reads these <plural>?
    is the <noun> in the picture on purpose?
    can I close the tab with <path>?
    when was <host> last looked at?
    what is the port there, does anyone know?
    how long may it take, do we have a number?
    which version was that again, I wonder?
    who was to decide about it?
    shall I write a few lines about <function>?
    do you see the same on <host>?
    what would you call a <adjective> <noun> in code?
    is <small> a lot, in your experience?
""")


def chatter(r: random.Random) -> str:
    """One sentence put together at random: a remark, something done, something intended, or a question."""
    form = r.random()
    if form < 0.36:
        clause = f"{pick(r, _SUBJECTS)} {pick(r, _PREDICATES)}"
    elif form < 0.62:
        clause = pick(r, _ACTIONS)
    elif form < 0.84:
        clause = pick(r, _INTENTIONS)
    else:
        return _write_question(r)
    head = f"{pick(r, _HEADS)} " if chance(r, 0.3) else ""
    tail = pick(r, _TAILS) if chance(r, 0.3) else ""
    if tail and not tail.startswith(","):
        tail = f" {tail}"
    return capital(expand(r, f"{head}{clause}{tail}") + pick(r, (".", ".", ".", ".", ".", "!", " ...")))


def _write_question(r: random.Random) -> str:
    lead = pick(r, ("", "", "", "one question: ", "by the way, ", "hm, ", "so, ", "out of curiosity, ", "and "))
    return capital(expand(r, lead + pick(r, _QUESTIONS)))
