"""What may be told of code, data, failures and work on them, and how it is told and asked."""

from __future__ import annotations

from remory.training.generator import words
from remory.training.generator.attributes import (
    CAUSES,
    ENCODINGS,
    FACTORS,
    FIXES,
    LEVELS,
    MODES,
    PRIORITIES,
    STATES,
    attribute,
)
from remory.training.generator.entities import (
    credential,
    endpoint,
    environment,
    function,
    job,
    module,
    release,
    service,
    setting,
    store,
    test,
    ticket,
)
from remory.training.generator.statements import Attribute

ENGINEERING: tuple[Attribute, ...] = (
    attribute(
        "cause",
        (service, test, job, ticket, endpoint),
        "cause, root cause, reason for the failure, culprit",
        CAUSES,
        """{e} [[failed]] because of {v}
        the [[outage]] of {e} was caused by {v}
        {v} [[broke]] {e}
        {v} was [[behind]] the trouble with {e}
        {e} went [[down]] over {v}
        what [[tripped]] {e} was {v}
        we traced the [[failure]] of {e} to {v}
        it was {v} that [[stopped]] {e}""",
        """Why did {e} fail?
        What caused the trouble with {e}?
        What broke {e}?
        What was behind the failure of {e}?
        To what was the outage of {e} traced?
        What went wrong with {e}?""",
    ),
    attribute(
        "fix",
        (service, test, job, ticket),
        "fix, remedy, solution, cure",
        FIXES,
        """{v} [[fixed]] {e}
        {e} was [[repaired]] by {v}
        {e} is [[healthy]] again after {v}
        what [[helped]] {e} was {v}
        the [[remedy]] for {e} turned out to be {v}
        {e} [[passes]] since {v}""",
        """What fixed {e}?
        How was {e} repaired?
        What helped with {e}?
        What was the remedy for {e}?
        What got {e} working again?""",
        """[[Fix]] {e} with {v}.""",
    ),
    attribute(
        "error",
        (service, job, test, function, endpoint),
        "error, error message, exception, failure",
        words.error,
        """{e} [[stops]] with {v}
        {e} [[fails]] with {v}
        {e} [[raises]] {v}
        {e} [[dies]] from {v}
        {e} [[throws]] {v} on the second run
        all that {e} [[prints]] is {v}
        the [[trace]] of {e} ends in {v}""",
        """With which error does {e} fail?
        What does {e} raise?
        Which exception comes out of {e}?
        What error did we see from {e}?
        How does {e} die?""",
    ),
    attribute(
        "state",
        (ticket, service, release, job, module),
        "status, state, condition",
        STATES,
        """{e} is {v} ([[status]])
        {e} [[stands]] at {v}
        {e} is [[marked]] as {v}
        {e} [[went]] to {v}
        as of now {e} [[counts]] as {v}
        the [[board]] shows {e} as {v}""",
        """What is the state of {e}?
        How does {e} stand?
        As what is {e} marked?
        In what condition is {e}?
        Where are we with {e}?""",
        """[[Mark]] {e} as {v}.""",
    ),
    attribute(
        "priority",
        (ticket, ticket, release, job),
        "priority, severity, urgency",
        PRIORITIES,
        """{e} is [[rated]] {v}
        {e} was [[raised]] to {v}
        {e} is [[filed]] as {v}
        {e} has [[dropped]] to {v}""",
        """How urgent is {e}?
        How was {e} rated?
        As what is {e} filed?""",
        """[[File]] {e} as {v}.""",
    ),
    attribute(
        "ticket",
        (service, test, module, job, function),
        "ticket, issue, issue number",
        words.ticket,
        """{e} is [[tracked]] in {v}
        the [[bug]] in {e} is {v}
        I [[opened]] {v} for {e}
        {v} is about {e}, that is the [[ticket]]
        the [[work]] on {e} is filed under {v}""",
        """Which ticket tracks {e}?
        Under which number is the work on {e} filed?
        What is the issue for {e}?""",
        """[[File]] it about {e} under {v}.
        [[Refer]] to {v} when you touch {e}.""",
    ),
    attribute(
        "commit",
        (release, module, ticket, service),
        "commit, revision, commit hash",
        words.commit,
        """{e} was [[built]] from {v}
        {e} was [[cut]] from {v}
        {v} is the [[revision]] behind {e}
        {e} was [[tagged]] at {v}""",
        """From which commit was {e} built?
        Which revision matters for {e}?
        What is the commit hash for {e}?""",
        """[[Build]] {e} from {v}.
        [[Revert]] {e} to {v}.""",
    ),
    attribute(
        "level",
        (service, job, environment),
        "log level, verbosity",
        LEVELS,
        """{e} [[logs]] at {v}
        the [[verbosity]] of {e} is {v}
        {e} was [[turned]] to {v}""",
        """At which level does {e} log?
        How verbose is {e}?""",
        """Set [[logging]] of {e} to {v}.""",
    ),
    attribute(
        "mode",
        (service, store, job, environment, release),
        "mode, operating mode, setup",
        MODES,
        """{e} [[works]] in {v} mode
        {e} [[operates]] as {v}
        {e} was [[put]] into {v} mode
        {e} stays [[in]] {v} mode until further notice""",
        """In which mode does {e} work?
        How does {e} operate?
        What mode was {e} put into?""",
        """[[Run]] {e} in {v} mode.""",
    ),
    attribute(
        "key",
        (store, job, service, function),
        "partition key, sort key, sharding key, grouping",
        FACTORS,
        """{e} is [[partitioned]] by {v}
        {e} is [[sorted]] by {v}
        {e} [[groups]] its rows by {v}
        {e} is [[split]] along {v}
        {e} is [[keyed]] on {v}""",
        """By what is {e} partitioned?
        How is {e} sorted?
        What does {e} group by?
        Along what is {e} split?""",
        """[[Partition]] {e} by {v}.""",
    ),
    attribute(
        "encoding",
        (store, endpoint, module, job),
        "encoding, character set, byte order",
        ENCODINGS,
        """{e} is [[encoded]] in {v}
        {e} [[expects]] {v}
        {e} [[reads]] {v}, nothing else""",
        """How is {e} encoded?
        Which encoding does {e} expect?""",
        """[[Encode]] {e} as {v}.""",
    ),
    attribute(
        "setting",
        (service, job, function, environment),
        "environment variable, switch, setting",
        words.constant,
        """{e} is [[controlled]] by {v}
        {e} [[reads]] {v} from the environment
        {v} [[switches]] {e} on
        without {v} being [[set]], {e} does not come up""",
        """Which variable controls {e}?
        What must be set for {e} to come up?
        What does {e} read from the environment?""",
        """[[Export]] {v} before you start {e}.""",
    ),
    attribute(
        "flag",
        (job, test, service, function),
        "flag, option, command line flag",
        words.flag,
        """{e} must be [[called]] with {v}
        {e} needs the [[option]] {v}
        {e} only works with {v} on the [[command line]]
        {v} makes {e} [[quiet]]""",
        """With which flag must {e} be called?
        What option does {e} need?
        What goes on the command line of {e}?""",
        """[[Pass]] {v} to {e}.
        [[Call]] {e} with {v}.""",
    ),
    attribute(
        "name",
        (store, service, function, module, setting),
        "new name, future name, replacement",
        words.identifier,
        """{e} was [[renamed]] to {v}
        {e} is [[called]] {v} from now on
        {v} [[replaces]] {e}
        {e} became {v} in the last [[rename]]
        {e} goes by the [[name]] {v} now""",
        """What was {e} renamed to?
        What is {e} called now?
        What replaces {e}?
        Under which name is {e} known today?""",
        """[[Rename]] {e} to {v}.
        [[Replace]] {e} by {v} everywhere.""",
    ),
    attribute(
        "name",
        (service, endpoint, job, module),
        "input, source, input queue",
        words.snake,
        """{e} [[reads]] from {v}
        {e} [[consumes]] {v}
        {e} is [[fed]] by {v}
        {e} takes its [[input]] from {v}""",
        """What does {e} read from?
        From where does {e} take its input?
        By what is {e} fed?""",
        """[[Feed]] {e} from {v}.""",
    ),
    attribute(
        "service",
        (service, endpoint, job),
        "upstream, dependency, upstream service",
        words.service,
        """{e} [[depends]] on {v}
        {e} [[calls]] {v} first
        {e} gets its [[data]] from {v}
        without {v} nothing [[reaches]] {e}
        {e} sits [[behind]] {v}""",
        """Which service does {e} depend on?
        What does {e} call first?
        Where does {e} get its data from?
        What stands before {e} in the chain?""",
        """[[Point]] {e} at {v}.""",
    ),
    attribute(
        "date",
        (release, service, ticket, job),
        "due date, deadline, end date",
        words.date,
        """{e} is [[due]] on {v}
        {e} [[ends]] on {v}
        {e} will be [[switched off]] on {v}
        {v} is the [[last day]] for {e}
        we have [[until]] {v} for {e}""",
        """On what day is {e} due?
        Until when do we have for {e}?
        What is the last day of {e}?""",
        """[[Finish]] {e} by {v}.
        [[Close]] {e} by {v} at the latest.""",
    ),
    attribute(
        "date",
        (credential, environment),
        "expiry date, expiry, end of validity",
        words.date,
        """{e} [[expires]] on {v}
        {v} is when {e} [[runs out]]
        {e} is [[valid]] until {v}
        {e} [[lapses]] on {v}
        we must [[renew]] {e} before {v}""",
        """When does {e} expire?
        Until when is {e} valid?
        Before which date must {e} be renewed?
        On what day does {e} run out?""",
        """[[Renew]] {e} before {v}.""",
    ),
    attribute(
        "service",
        (service, job, endpoint),
        "fallback, stand-in, backup",
        words.service,
        """{e} [[falls back]] to {v}
        {v} [[stands in]] for {e} when it is down
        if {e} fails, {v} [[takes over]]
        {v} is the [[spare]] for {e}""",
        """On what does {e} fall back?
        What stands in for {e}?
        What takes over if {e} fails?
        Which service is the spare for {e}?""",
        """Let {v} [[take over]] when {e} fails.""",
    ),
    attribute(
        "number",
        (test, service, job, endpoint, function),
        "throughput, measured rate, rows per second",
        words.count,
        """{e} [[reaches]] {v} rows per second
        we [[measured]] {v} requests a second for {e}
        {e} [[manages]] {v} items a minute
        the [[benchmark]] of {e} settled at {v}""",
        """What throughput does {e} reach?
        What rate did we measure for {e}?
        How much does {e} manage?""",
    ),
    attribute(
        "number",
        (store, job, ticket, service),
        "number of lost rows, loss, number of missing records",
        words.count,
        """{e} [[lost]] {v} rows
        {v} [[records]] of {e} are gone
        {e} came back with {v} rows [[missing]]
        {e} is [[short]] of {v} rows""",
        """How many rows did {e} lose?
        How many records are missing from {e}?
        By how many rows is {e} short?""",
    ),
    attribute(
        "person",
        (release, ticket, credential, environment),
        "approver, reviewer",
        words.role,
        """{v} has to [[approve]] {e}
        {v} [[reviews]] {e}
        {e} needs the [[signature]] of {v}
        {e} goes to {v} for [[review]]
        without {v} nobody [[signs off]] {e}""",
        """Who approves {e}?
        Who has to sign off {e}?
        To whom does {e} go for review?""",
        """Have {e} [[approved]] by {v}.""",
    ),
    attribute(
        "secret",
        (credential, service, environment),
        "place of the key, vault entry, secret name",
        words.kebab,
        """the [[secret]] of {e} is stored as {v}
        {e} is in the [[vault]] under {v}
        {e} takes its [[password]] from the entry {v}""",
        """Under what name is the secret of {e} stored?
        Where in the vault is {e}?""",
        """[[Store]] {e} as {v}.""",
    ),
    attribute(
        "tool",
        (job, test, environment, module),
        "tool, program",
        words.tool,
        """{e} is [[done]] with {v}
        {e} is [[deployed]] with {v}
        we [[dropped]] the script for {e} in favour of {v}
        {e} [[goes]] through {v}""",
        """With which tool is {e} done?
        What program is used for {e}?
        What did we choose for {e} instead of the script?""",
        """[[Use]] {v} for {e}.""",
    ),
)
