"""Patterns of rules, wishes, next steps, results, incidents and how things are done."""

from __future__ import annotations

from remory.training.generator import entities, words
from remory.training.generator.attributes import CAUSES, FIXES
from remory.training.generator.findings import FINDINGS
from remory.training.generator.patterns import Pattern, one_word, pattern, verb_object

STYLES = one_word("""
    tabs; two spaces; four spaces; single quotes; double quotes; trailing commas; snake case; camel case; British
    spelling; American spelling; short lines; one import per line; explicit types; no semicolons; early returns; plain
    asserts; the metric system; ISO dates; the 24-hour clock; passive voice; bullet points; numbered lists; small
    letters; title case; full sentences; no emoji
""")
TONES = one_word("""
    formal; friendly; terse; cheerful; neutral; detailed; blunt; apologetic; dry; playful; matter-of-fact; polite
""")
ORDERS = one_word("""
    oldest first; newest first; by name; by size; by price; by due date; largest first; at random; by priority; by
    country; from north to south; alphabetically; by colour; in the order of arrival; by weight; by distance
""")
OUTCOMES = one_word("""
    the service restarts; the pager rings; writes are refused; the job is skipped; the queue is drained; a ticket is
    opened; the old version comes back; the doors stay shut; a warning is shown; the account is locked; the valve
    closes; the price is rounded up; the mail bounces; the lights go out; the pump stops; the row is dropped; the
    standby takes over; the build is cancelled; the upload starts over; nothing happens at all; the cache is bypassed
""")

RULES: tuple[Pattern, ...] = (
    pattern(
        {"x": words.folder},
        """[[Never touch]] anything under [[{x}]]; it is generated.
        Keep your hands [[off]] [[{x}]], please.
        You may change everything except [[{x}]], which is [[off limits]].
        The folder [[{x}]] is [[taboo]], it belongs to somebody else.
        If a change seems to need an edit in [[{x}]], stop: that folder is [[not to be edited]].
        [[Do not edit]]: [[{x}]]
        We [[do not commit]] to [[{x}]]; it comes from <tool>.
        Leave [[{x}]] [[untouched]]. <owner> syncs it by hand.""",
        "user",
        x="""path
        Which folder must not be touched?
        What folder is off limits for changes?
        Where am I not allowed to edit anything?
        Which directory should I leave alone?
        Which place in the tree is taboo?""",
    ),
    pattern(
        {"x": STYLES, "y": entities.module},
        """In [[{y}]] we [[write]] with [[{x}]].
        [[{x}]] for [[{y}]], please, that is the [[style]] there.
        I [[prefer]] [[{x}]] in [[{y}]].
        The [[house style]] for [[{y}]]: [[{x}]].
        When you write to [[{y}]], [[stick]] to [[{x}]].
        <owner> asks for [[{x}]] throughout [[{y}]] ([[style]]).
        Could you [[use]] [[{x}]] in [[{y}]]? Everything else there does.
        [[{y}]] [[style]] = [[{x}]]""",
        x="""style
        What style is wanted in {y}?
        Which convention holds for {y}?
        How am I to write in {y}?
        What do we prefer in {y} as to style?
        Which formatting should I keep to in {y}?""",
    ),
    pattern(
        {"x": TONES, "y": entities.crew},
        """[[Messages]] to [[{y}]] should be [[{x}]].
        Write to [[{y}]] in a [[{x}]] [[tone]].
        Keep it [[{x}]] when you [[write]] to [[{y}]].
        The [[tone]] for [[{y}]] is [[{x}]], they asked for it.
        [[{y}]] likes [[mails]] [[{x}]].
        With [[{y}]], be [[{x}]] in [[tone]].""",
        x="""tone
        In what tone do we write to {y}?
        How should messages to {y} sound?
        What tone does {y} like?
        How do I word a mail to {y}?""",
    ),
    pattern(
        {"x": ORDERS, "y": entities.store},
        """[[Sort]] [[{y}]] [[{x}]].
        [[{y}]] should be [[listed]] [[{x}]].
        We go through [[{y}]] [[{x}]], that [[order]] and no other.
        The [[order]] for [[{y}]]: [[{x}]].
        [[{y}]] is [[worked off]] [[{x}]].
        Please [[show]] [[{y}]] [[{x}]], <owner> is used to it.""",
        x="""order
        In what order is {y} gone through?
        How is {y} to be sorted?
        How should {y} be listed?
        What order do we keep for {y}?""",
    ),
    pattern(
        {"x": verb_object},
        """The [[next step]] is to [[{x}]].
        After this, [[{x}]] - that comes [[next]].
        [[Next]] we have to [[{x}]].
        Once that is through, please [[{x}]] as the [[next thing]].
        Up [[next]]: [[{x}]].
        TODO [[next]]: [[{x}]]
        What [[remains]] is to [[{x}]], then we are done.
        When this is merged I will [[{x}]], that is the [[next]] item.
        I stopped before the point where one has to [[{x}]]; [[continue]] there.""",
        x="""task
        What is the next step?
        What comes next?
        What do we have to do after this?
        With which task does the work go on?
        What was next on the list?""",
    ),
    pattern(
        {"x": verb_object, "y": entities.release},
        """Before [[{y}]] goes out we [[must]] [[{x}]].
        [[{y}]] is [[blocked]] until we [[{x}]].
        To [[finish]] [[{y}]], somebody has to [[{x}]].
        The only thing [[missing]] for [[{y}]] is to [[{x}]].
        [[{y}]] [[waits]] for one thing, namely to [[{x}]].
        [[Open]] for [[{y}]]: [[{x}]].
        We cannot [[ship]] [[{y}]] unless we [[{x}]] first.""",
        x="""task
        What is still open for {y}?
        What must be done before {y} goes out?
        What blocks {y}?
        For what does {y} wait?
        What is missing for {y}?""",
    ),
    pattern(
        {"x": OUTCOMES, "y": words.service, "z": words.percentage},
        """If [[{y}]] goes over [[{z}]], [[{x}]].
        [[{x}]] as soon as [[{y}]] passes [[{z}]].
        When [[{y}]] is above [[{z}]], then [[{x}]].
        Above [[{z}]] on [[{y}]], [[{x}]]. That is by design.
        [[{y}]] > [[{z}]] means that [[{x}]].
        Suppose [[{y}]] climbs past [[{z}]]: [[{x}]].
        For [[{y}]] we agreed on a line at [[{z}]]; beyond it [[{x}]].""",
        x="""consequence
        What happens when {y} goes over its line?
        What follows if {y} gets too high?
        What is the consequence of {y} passing the threshold?
        What is meant to happen once {y} is above the mark?""",
        z="""percentage
        Above which value does it become serious for {y}?
        At what level does something happen with {y}?
        Where is the line for {y}?
        Past which mark must {y} not climb?""",
    ),
    pattern(
        {"x": OUTCOMES, "y": words.constant},
        """With [[{y}]] unset, [[{x}]].
        When [[{y}]] is [[missing]], [[{x}]].
        If nobody [[sets]] [[{y}]], [[{x}]].
        [[{x}]] unless [[{y}]] is [[set]].
        Setting [[{y}]] has one [[effect]]: [[{x}]].
        What [[{y}]] [[does]]? With it, [[{x}]].""",
        x="""effect
        What is the effect of {y}?
        What does {y} bring about?
        What has {y} to do with it, or what happens on account of {y}?
        What happens with {y}?""",
    ),
    pattern(
        {"x": words.duration, "y": entities.event},
        """[[{y}]] needs [[notice]] of [[{x}]].
        Tell everyone [[{x}]] [[ahead]] of [[{y}]].
        Please [[warn]] the others [[{x}]] before [[{y}]].
        For [[{y}]] one has to [[sign up]] [[{x}]] in advance.
        No [[changes]] to [[{y}]] later than [[{x}]] before it.
        [[{x}]] of [[lead]] is the least for [[{y}]].""",
        x="""duration
        How long before {y} must people be told?
        How much notice does {y} need?
        How far ahead of {y} is the limit?
        What is the lead for {y}?""",
    ),
    pattern(
        {"x": entities.machine, "y": entities.job},
        """[[{y}]] must [[not run]] on [[{x}]].
        Keep [[{y}]] [[away]] from [[{x}]].
        [[Never]] start [[{y}]] on [[{x}]], it has too little memory.
        Any machine will do for [[{y}]] [[except]] [[{x}]].
        [[{x}]] is [[excluded]] for [[{y}]].
        [[{y}]]: [[not]] on [[{x}]], please.""",
        x="""host
        On which machine must {y} not run?
        From what machine should {y} be kept away?
        Which host is excluded for {y}?
        Where am I not to start {y}?""",
    ),
)

INCIDENTS: tuple[Pattern, ...] = (
    pattern(
        {"x": words.time, "y": words.service, "z": words.duration},
        """[[{y}]] [[went down]] at [[{x}]] and was [[away]] for [[{z}]].
        The [[outage]] of [[{y}]] began at [[{x}]]; it [[lasted]] [[{z}]].
        At [[{x}]] [[{y}]] [[stopped]] answering. It took [[{z}]] to get it [[back]].
        Timeline: [[{x}]] [[{y}]] [[down]], <time> page, [[{z}]] of [[downtime]] in all.
        For [[{z}]] [[{y}]] was [[gone]], starting at [[{x}]].
        [[{y}]]: [[down]] since [[{x}]], [[total]] [[{z}]].""",
        x="""time
        At what time did {y} go down?
        When did the outage of {y} begin?
        At which hour did {y} stop answering?
        Since when was {y} away?""",
        z="""duration
        How long was {y} down?
        For how long did {y} not answer?
        How much downtime did {y} have?
        How long did the outage of {y} last?""",
    ),
    pattern(
        {"x": CAUSES, "y": words.ticket},
        """[[{y}]] turned out to be [[{x}]].
        The [[root cause]] in [[{y}]]: [[{x}]]. <count> lines of log and it was that.
        After <small> hours we know what was [[behind]] [[{y}]]: [[{x}]].
        I can close [[{y}]], the [[cause]] was [[{x}]].
        I suspected <service>, then <host>. In truth [[{y}]] was [[{x}]].
        [[{x}]]. That is all there [[was]] to [[{y}]].
        Postmortem [[{y}]]\\nImpact: <count> requests\\n[[Cause]]: [[{x}]]
        Who would have thought it: [[{x}]] was the [[reason]] for [[{y}]].""",
        x="""cause
        What was the cause of {y}?
        What was behind {y}?
        What did {y} turn out to be?
        Why did {y} happen?
        What did the postmortem of {y} find?""",
    ),
    pattern(
        {"x": FIXES, "y": words.service},
        """We got [[{y}]] [[back up]] with [[{x}]].
        [[{x}]] [[brought]] [[{y}]] back.
        What [[saved]] [[{y}]] in the end was [[{x}]].
        After <small> tries, [[{x}]] [[did the trick]] for [[{y}]].
        A restart did nothing, but [[{y}]] [[recovered]] after [[{x}]], to put it briefly.
        If [[{y}]] hangs again, the [[cure]] is [[{x}]].
        [[{y}]] [[resolved]]: [[{x}]].""",
        x="""fix
        What brought {y} back?
        What did the trick for {y}?
        What is the cure if {y} hangs?
        How did we get {y} going again?""",
    ),
    pattern(
        {"x": words.version, "y": words.service},
        """The [[bug]] in [[{y}]] came in with [[{x}]].
        [[{y}]] has been [[broken]] since [[{x}]].
        Everything before [[{x}]] of [[{y}]] is [[fine]].
        Bisecting [[{y}]] led to [[{x}]] as the [[first bad]] one.
        The [[regression]] in [[{y}]] appeared in [[{x}]].
        [[First affected]] release of [[{y}]]: [[{x}]].""",
        x="""version
        Since which version is {y} broken?
        In which release did the regression of {y} appear?
        With what version did the bug in {y} come in?
        Which release of {y} is the first bad one?""",
    ),
    pattern(
        {"x": words.function_name, "y": entities.module},
        """The [[bug]] in [[{y}]] sits in [[{x}]].
        It is [[{x}]] that [[leaks]] in [[{y}]].
        In [[{y}]] the [[slow]] part is [[{x}]], at line <line>.
        Profiling [[{y}]] gives <percentage> in <function> and friends, but the [[culprit]] is [[{x}]].
        I found it: [[{x}]] in [[{y}]] gets the sign [[wrong]].
        The [[fault]] of [[{y}]] lies with [[{x}]], nothing else.
        [[{x}]] is what [[misbehaves]] in [[{y}]].""",
        x="""function
        Which function is at fault in {y}?
        Where in {y} does the bug sit?
        What misbehaves in {y}?
        Which function is the culprit in {y}?""",
    ),
    pattern(
        {"x": words.count, "y": entities.customer},
        """[[{x}]] [[complaints]] came from [[{y}]].
        [[{y}]] reported [[{x}]] [[cases]].
        At [[{y}]] [[{x}]] [[users]] were hit.
        We counted [[{x}]] [[affected]] at [[{y}]].
        [[{y}]] was [[hit]] [[{x}]] times.
        [[Affected]] at [[{y}]]: [[{x}]].""",
        x="""number
        How many were affected at {y}?
        How many cases did {y} report?
        What number did we count at {y}?
        How often was {y} hit?""",
    ),
)

PRACTICE: tuple[Pattern, ...] = (
    pattern(
        {"x": words.tool, "y": words.tool, "z": verb_object},
        """To [[{z}]] we [[use]] [[{x}]], no longer {y}.
        We [[chose]] [[{x}]] over {y} to [[{z}]].
        [[{x}]] [[replaces]] {y} when we [[{z}]].
        If you have to [[{z}]], [[take]] [[{x}]]; {y} is being phased out.
        Between {y} and [[{x}]], <owner> [[picked]] the latter to [[{z}]].
        {y} was too slow, so we [[{z}]] [[with]] [[{x}]] now.""",
        x="""tool
        With which tool do we {z}?
        What do we use to {z}?
        What did we choose to {z}?
        Which program is it when I have to {z}?""",
    ),
    pattern(
        {"x": words.kebab, "y": verb_object},
        """Run `make [[{x}]]` to [[{y}]].
        The [[target]] [[{x}]] is there to [[{y}]].
        If you want to [[{y}]], the [[command]] is [[{x}]].
        [[{x}]] is the [[script]] with which you [[{y}]].
        [[Command]] to [[{y}]]: [[{x}]]
        You [[{y}]] by [[calling]] [[{x}]].
        `[[{x}]]` will [[{y}]] for you.""",
        x="""command
        With which command do I {y}?
        What do I run to {y}?
        Which target or script is there to {y}?
        What do I call in order to {y}?""",
    ),
    pattern(
        {"x": words.decimal, "y": words.snake, "z": words.version},
        """With [[{z}]] the [[score]] of [[{y}]] is [[{x}]].
        [[{y}]] [[reached]] [[{x}]] on [[{z}]].
        The [[final]] value of [[{y}]] for [[{z}]]: [[{x}]].
        I measured [[{y}]] once more on [[{z}]]; [[{x}]] is what [[counts]].
        [[{z}]] gets [[{x}]] for [[{y}]], the runs before were warm-ups.
        [[Result]]: [[{y}]] = [[{x}]] ([[{z}]])""",
        "assistant tool",
        x="""score
        What is the value of {y} for {z}?
        What did {y} reach on {z}?
        What result did {z} get for {y}?
        How did {z} do in terms of {y}?""",
    ),
    pattern(
        {"x": entities.product, "y": entities.product, "z": words.percentage},
        """[[{x}]] is [[faster]] than {y} by [[{z}]].
        Compared with {y}, [[{x}]] [[saves]] [[{z}]].
        [[{x}]] [[beats]] {y}; the gap is [[{z}]].
        {y} loses to [[{x}]], which is [[{z}]] [[better]].
        Of the two, [[{x}]] [[wins]], with a lead of [[{z}]] over {y}.""",
        "assistant user",
        z="""percentage
        By how much is {x} ahead of {y}?
        How large is the gap between {x} and {y}?
        How much better is {x} than {y}?
        What lead does {x} have?""",
    ),
    pattern(
        {"x": words.owner, "y": entities.module},
        """[[Ask]] [[{x}]] before you change [[{y}]].
        Changes to [[{y}]] need the [[consent]] of [[{x}]].
        [[{x}]] wants to be [[told]] when [[{y}]] changes.
        Do not merge anything in [[{y}]] [[without]] [[{x}]].
        For [[{y}]] [[check]] with [[{x}]] first.
        [[{y}]] is [[guarded]] by [[{x}]], so to speak.""",
        "user",
        x="""team
        Whom must I ask before I change {y}?
        Whose consent do changes to {y} need?
        Who wants to know when {y} changes?
        With whom do I check about {y}?""",
    ),
    pattern(
        {"x": words.count, "y": words.count, "z": entities.store},
        """I counted [[{z}]]: [[{x}]] are [[good]], [[{y}]] are [[bad]].
        Of the rows in [[{z}]], [[{y}]] are [[broken]] and [[{x}]] are [[intact]].
        [[{z}]] has [[{x}]] [[valid]] entries and [[{y}]] [[invalid]] ones.
        [[{x}]] ok, [[{y}]] faulty: that is the [[count]] for [[{z}]].
        [[{z}]]\\n[[valid]] [[{x}]]\\n[[invalid]] [[{y}]]""",
        "assistant tool",
        x="""number
        How many entries of {z} are good?
        How many valid rows does {z} have?
        What is the number of intact rows in {z}?
        How much of {z} is fine, in rows?""",
        y="""number
        How many entries of {z} are bad?
        How many rows of {z} are broken?
        What is the number of faulty rows in {z}?
        How many invalid ones does {z} have?""",
    ),
    pattern(
        {"x": words.path, "y": words.path, "z": words.pascal},
        """I [[moved]] [[{z}]] from {y} to [[{x}]].
        [[{z}]] [[left]] {y} and is in [[{x}]] now.
        [[{z}]]: {y} -> [[{x}]] ([[moved]])
        git mv {y} [[{x}]] - that is where [[{z}]] [[lives]] now.
        You will look in vain for [[{z}]] in {y}; it [[went]] to [[{x}]].""",
        "assistant user",
        x="""path
        Where is {z} now?
        To which file did {z} go?
        In what file do I find {z} after the move?
        Where was {z} moved?""",
    ),
    pattern(
        {"x": words.snake, "y": words.pascal, "z": one_word("string; integer; list; boolean; map; date; float; uuid")},
        """[[{y}]] gets a new [[field]] [[{x}]] of type [[{z}]].
        I [[added]] [[{x}]] ([[{z}]]) to [[{y}]].
        The new [[column]] of [[{y}]] is [[{x}]], a [[{z}]].
        class [[{y}]]:\\n    [[{x}]]: [[{z}]]  # [[new]]
        [[{y}]] now has one more [[attribute]], [[{x}]], stored as [[{z}]].""",
        "assistant user",
        x="""name
        What is the new field of {y} called?
        Which attribute was added to {y}?
        What was added to {y}?
        By what was {y} extended?""",
        z="""type
        What type has the new field of {y}?
        As what is the new attribute of {y} stored?
        Of which type is what was added to {y}?""",
    ),
    pattern(
        {"x": words.code, "y": entities.thing, "z": words.spot},
        """The [[key]] to [[{y}]] is in [[{z}]], and its [[code]] is [[{x}]].
        [[{y}]] opens with [[code]] [[{x}]]; the [[spare key]] is in [[{z}]].
        For [[{y}]]: [[combination]] [[{x}]], [[key]] in [[{z}]].
        [[{z}]] holds the [[key]] of [[{y}]]. Should it ask for a [[code]], enter [[{x}]].""",
        x="""code
        What is the code of {y}?
        With which combination does {y} open?
        What do I enter at {y}?""",
        z="""place
        Where is the key to {y}?
        Where do I find the key of {y}?
        In which place is the key for {y}?""",
    ),
)

PATTERNS: tuple[Pattern, ...] = (*RULES, *INCIDENTS, *PRACTICE, *FINDINGS)
