"""Scenes of working sessions without a fact: code, listings, runs, traces, small talk, full of numbers and names."""

from __future__ import annotations

import random
from collections.abc import Callable

from remory.training.generator import fillers, words
from remory.training.generator.calls import call
from remory.training.generator.grammar import expand
from remory.training.generator.statements import split_lines
from remory.training.generator.words import chance, pick
from remory.training.sessions import Scene, Turn, say, scene

LINES: dict[str, tuple[str, ...]] = {
    "listing": split_lines("""
        -rw-r--r-- 1 <word> <word> <bytes> <file>
        -rw-r----- 1 root <word> <bytes> <file>
        drwxr-xr-x <digit> <word> staff <bytes> <kebab>
        <bytes> <path>
        <file>
        <folder>/
    """),
    "hits": split_lines("""
        <path>:<line>: <function>(<word>)
        <path>:<line>:    return <function>(<word>, <digit>)
        <file>:<line>: import <snake>
        <path>:<line>: # see <function>
        <file>-<line>- <word> = <camel>(<word>)
    """),
    "run": split_lines("""
        <path> ........ [<percentage>]
        PASS <test> (<ms> ms)
        ok <digit> - <kebab>
        test <snake> ... ok
        <count> passed in <seconds>s
        collected <count> items
        <test> PASSED
        Finished in <seconds> seconds
    """),
    "history": split_lines("""
        <commit> <word>: tidy up <file>
        <commit> Merge branch '<branch>'
        <commit> rename <camel> in tests
        <commit> remove dead code from <file>
        <commit> fix typo
        <commit> <word>: less noise in the log
        <commit> wip
        <commit> bump <word>-<word>
    """),
    "trace": split_lines("""
        File "<path>", line <line>, in <function>
        at <camel> (<path>:<line>:<digit>)
        at com.example.<word>.<pascal>.<camel>(<pascal>.java:<line>)
        <digit>: <word>::<snake>::<snake>
        #<digit> 0x<long_hash> in <function> (<word>=0x<commit>) at <file>:<line>
        goroutine <line> [running]: <word>.<camel>(0x<commit>)
    """),
    "build": split_lines("""
        [<digit>/<small>] Compiling <kebab> v<version>
        Step <digit>/<small> : COPY <folder> <folder>
        CC <word>/<file>
        Linking <word> (<size>)
        Downloading <kebab>-<version>.tar.gz (<size>)
        Successfully installed <kebab>-<version>
        warning: unused variable `<snake>` at <file>:<line>
        added <count> packages in <seconds>s
        --> <long_hash>
    """),
    "access": split_lines("""
        <address> - - [<stamp>] "GET <route>" 200 <bytes>
        <address> "POST <route>" 201 <bytes> "<ms>"
        <stamp> <service> <route> <ms>ms
        <clock> DEBUG <function> <code>
        <clock> INFO handled <code> in <ms> ms
        ts=<stamp> id=<commit> status=304
    """),
    "processes": split_lines("""
        <line> <word> <decimal> <decimal> <service> <flag>
        <commit> <kebab>:<version> Up <duration> <service>
        <service>-<commit> 1/1 Running 0 <short_duration>
        <line> ? Ss <clock> <path>
        <service> <size> / <size> <percentage>
    """),
    "rows": split_lines("""
        <line> | <word> | <decimal> | <date>
        <code>,<word>,<count>,<decimal>
        {"id": <line>, "<word>": "<code>", "<word>": <decimal>}
        <stamp>\t<line>\t<word>
        (<line>, '<code>', <decimal>)
        <code> <colour> <count>
    """),
    "lint": split_lines("""
        <path>:<line>:<digit> unused import <snake>
        <file>:<line> line too long (<line> characters)
        <path>:<line>: missing docstring in <function>
        <file>(<line>): note: <camel> shadows a name
        found <digit> problems in <small> files
    """),
    "numbers": split_lines("""
        p50 <ms> ms  p99 <ms> ms
        iteration <digit>: <ms> ms
        <function> <line> calls <seconds>s
        epoch <digit> loss <decimal>
        mean <decimal> sd <decimal> n=<count>
        64 bytes from <address>: icmp_seq=<digit> time=<ms> ms
        <percentage> <path>
    """),
}

CODE = split_lines(r"""
    def <function>(<word>, <snake>=<digit>):\n    <plural> = [<word> for <word> in <snake> if <word>]\n    return \
        sorted(<plural>)[:<small>]
    class <pascal>:\n    def __init__(self, <word>):\n        self._<word> = <word>\n\n    def <function>(self):\n   \
             return self._<word>.<word>(<digit>)
    func (<word> *<pascal>) <camel>(ctx context.Context) error {\n\tfor i := 0; i < <small>; i++ \
        {\n\t\t<word>.<camel>(i)\n\t}\n\treturn nil\n}
    fn <function>(<word>: &str) -> Option<u32> {\n    <word>.split(',').nth(<digit>)?.parse().ok()\n}
    const <camel> = (<word>) => <word>.map((x) => x.<word> + <digit>).filter(Boolean);
    SELECT <word>, count(*) FROM <plural> JOIN <plural> USING (<word>_id) GROUP BY <word> HAVING count(*) > <small>;
    for <word> in $(seq 1 <small>); do\n  <tool> <flag> <folder>/$<word>\ndone
    if len(<plural>) > <line>:\n    log.debug("<word> %d", len(<plural>))\n    <plural> = <plural>[-<small>:]
    with open("<path>") as <word>:\n    <plural> = json.load(<word>)\nassert <plural>["<word>"] != "<code>"
    @pytest.mark.parametrize("<word>", [<small>, <line>, <digit>])\ndef <test>(<word>):\n    assert \
        <function>(<word>) == <line>
    ALTER TABLE <plural> ADD COLUMN <snake> integer;\nCREATE INDEX ON <plural> (<snake>);
    static int <function>(struct <word> *<word>, size_t n) {\n  return n > <line> ? -1 : <word>-><word>[n];\n}
    try {\n  await <camel>(<word>, { <word>: <line> });\n} catch (e) {\n  console.warn("<word>", e);\n}
    <word>:\n\t<tool> <flag> <folder>\n\trm -rf <folder>/<word>
    <div class="<kebab>"><span>{{ <word>.<word> }}</span></div>
    from <word>.<snake> import <pascal>\n\n\n<constant> = <pascal>(<line>)
    - name: <word> the <plural>\n  <word>:\n    src: <path>\n    dest: <path>\n    mode: "0644"
    let mut <plural> = Vec::with_capacity(<line>);\nfor <word> in <word>.iter().skip(<digit>) {\n    \
        <plural>.push(<word>.clone());\n}
    @@ -<line>,<digit> +<line>,<digit> @@\n-  <camel>( <word> )\n+  <camel>(<word>)
    expect(<camel>(<line>)).toEqual({ <word>: "<code>", <word>: <digit> });
""")

DOCUMENTATION = split_lines(r"""
    The manual says: "A <word> is created on first use and shared between <plural>. It must not be modified from \
        more than one thread."
    From the docs:\n> `<camel>` returns an empty list when no <word> matches. The order of the <plural> is not \
        guaranteed.
    > Calling <function> twice has no effect. See also <function> and <function>.
    The help text, for what it is worth:\nusage: <word> [<flag>] [<flag> N] <word>\n  <flag>  print more\n  <flag>  \
        print less
    RETURN VALUE\n  On success <function> returns 0. On error -1 is returned and <error> is set.
    README, first lines:\n# <product>\nA small tool that turns <plural> into <plural>. Install with make <word>.
    Deprecated since <version>. Use <camel> instead, which takes the same arguments.
    "<pascal> objects are cheap to copy", claims the page, then copies one in a loop of <count>.
""")

PROSE = split_lines(r"""
    I went through <module> and <module>. Both call <function> with <small> arguments or so, and neither checks the \
        result.
    So far: <small> files read, <digit> of them relevant. The interesting part starts around line <line>, where the \
        <word> gets copied.
    There are two ways to go about it. We could fold <function> into its caller, or leave it and add a guard. The \
        first is shorter, the second safer.
    The failing case comes and goes. I ran it <small> times; it broke <digit> times, each time at another place.
    The trace is the usual one, <function> calls <function>, which calls itself. I cut it after <small> lines.
    My first idea was the <word>. That turned out to be nonsense, since <function> never touches it. The second idea \
        is not much better.
    What I do not understand is the order of the <plural>. It is sorted in <file> and shuffled again in <file>.
    Reading on. The next block parses the <word>, checks its <word> and throws both away.
    I reran it with <flag> and got <count> lines more, none of them useful. The last one reads "<word> <code>".
    The diff is small: <digit> files, <small> insertions, <small> deletions, most of it in the tests.
    While it runs, I will write the description. It takes about <seconds> seconds anyway.
    Step one is done, step two is half done. The rest needs a clear head.
    If I read this right, the <word> is built twice per request. That is wasteful, not wrong.
    I compared the two dumps. They differ in <count> bytes, all of them padding.
    A short detour: the helper in <path> looks like dead code, but <test> imports it.
    Nothing to see in the metrics: the curve has a bump at <clock> and one at <clock>, both from my own runs.
    The request with id <code> went through <host> and back in <ms> ms. That is normal.
    It compiles. It also prints <count> warnings, but it always has.
    Thread <line> waits for thread <line>, and the other way round, or so the dump claims; the next dump shows neither.
    I asked for <small> samples and got <small>. The generator drops the empty ones.
""")

JOKES = split_lines("""
    If the tests get any greener we will have to mow them.
    That variable name is longer than my holiday.
    The parser has opinions, and most of them are wrong.
    I have met friendlier <plural> in the wild.
    This function has seen things.
    The bug left before I arrived, as they do.
    One more layer of indirection and it floats.
    It is always the cache, except when it is the <noun>.
    The code review took longer than the code, as it should.
    I named it <snake> and regret it already.
    We are <number_word> refactorings away from the original.
    The <noun> in the corridor hums in the same key as the server.
""")


def listing(r: random.Random) -> Scene:
    """A tool call and lines of one sort."""
    lines = LINES[pick(r, tuple(LINES))]
    chosen = [pick(r, lines) for _ in range(r.randint(1, 2))]
    times = words.stamps(r, r.randint(2, 7))
    body = "\n".join(expand(r, pick(r, chosen), stamp=time, clock=time[-12:].strip("[]T ")) for time in times)
    turns = [call(r), say("tool", body)]
    if chance(r, 0.35):
        turns.insert(0, say("user", fillers.request(r)))
    return scene([*turns, *_remark(r, 0.5)])


def mixed_output(r: random.Random) -> Scene:
    """A tool call and lines of several sorts."""
    kinds = [pick(r, tuple(LINES)) for _ in range(2)]
    body = "\n".join(expand(r, pick(r, LINES[pick(r, kinds)])) for _ in range(r.randint(3, 6)))
    return scene([call(r), say("tool", body), *_remark(r, 0.6)])


def _remark(r: random.Random, probability: float) -> list[Turn]:
    return [say("assistant", fillers.fillers(r, 1, 3))] if chance(r, probability) else []


def write_code(r: random.Random) -> Scene:
    """The answering role writes or shows code."""
    code = expand(r, pick(r, CODE)).replace("\\n", "\n").replace("\\t", "\t")
    if chance(r, 0.35):
        return scene([call(r), say("tool", code), *_remark(r, 0.6)])
    fence = pick(r, ("```", "```", ""))
    turns = [say("assistant", f"{fillers.fillers(r, 1, 2)}\n{fence}\n{code}\n{fence}".rstrip())]
    if chance(r, 0.4):
        turns.insert(0, say("user", fillers.request(r)))
    return scene(turns)


def reason_aloud(r: random.Random) -> Scene:
    """The answering role thinks about the code, with numbers and names of no consequence."""
    text = " ".join(expand(r, pick(r, PROSE)) for _ in range(r.randint(1, 2)))
    turns = [say("assistant", fillers.around(r, text, 0.3, 0.4))]
    if chance(r, 0.4):
        turns.insert(0, say("user", fillers.request(r)))
    return scene(turns)


def quote_documentation(r: random.Random) -> Scene:
    """A piece of documentation is quoted."""
    text = expand(r, pick(r, DOCUMENTATION)).replace("\\n", "\n")
    role = pick(r, ("tool", "assistant", "user"))
    opening = [call(r)] if role == "tool" else []
    return scene([*opening, say(role, text), *_remark(r, 0.4)])


def chat(r: random.Random) -> Scene:
    """A short exchange about the work: a joke, a doubt, an assent."""
    first = pick(r, (fillers.request, fillers.filler, lambda q: expand(q, pick(q, JOKES))))(r)
    turns = [say("user", fillers.greet(r, first)), say("assistant", fillers.acknowledgement(r))]
    if chance(r, 0.3):
        turns.append(say("user", fillers.filler(r)))
    return scene(turns)


def ask_back(r: random.Random) -> Scene:
    """A question back whose answer gives nothing away."""
    question = fillers.expand_any(r, fillers.DOUBTS)
    reply = fillers.expand_any(
        r, (*fillers.REMARKS, *fillers.HYPOTHESES, "Not sure.", "No idea yet.", "Let me find out.")
    )
    return scene([say("assistant", f"{fillers.filler(r)} {question}"), say("user", reply)])


def nod(r: random.Random) -> Scene:
    """One message of a few words."""
    text = pick(r, (fillers.acknowledgement, fillers.plan, fillers.request, fillers.filler))(r)
    return scene([say(pick(r, ("user", "assistant")), text)])


SCENES: tuple[Callable[[random.Random], Scene], ...] = (
    listing,
    listing,
    listing,
    mixed_output,
    write_code,
    write_code,
    reason_aloud,
    reason_aloud,
    quote_documentation,
    chat,
    ask_back,
    nod,
)
