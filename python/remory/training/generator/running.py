"""What may be told of services, jobs and machines in operation, and how it is told and asked."""

from __future__ import annotations

from remory.training.generator import words
from remory.training.generator.attributes import (
    ALGORITHMS,
    DATABASES,
    FORMATS,
    LANGUAGES,
    LIBRARIES,
    REGIONS,
    attribute,
)
from remory.training.generator.entities import (
    credential,
    endpoint,
    environment,
    function,
    job,
    machine,
    module,
    release,
    service,
    setting,
    store,
    test,
    ticket,
)
from remory.training.generator.statements import Attribute

RUNNING: tuple[Attribute, ...] = (
    attribute(
        "port",
        (service, service, environment, machine),
        "port, listening port, TCP port, port number",
        words.port,
        """{e} listens on [[port]] {v}
        {e} is reachable on [[port]] {v}
        {e} answers at [[port]] {v}
        {v} is the [[port]] where {e} accepts connections
        {e} was moved to [[port]] {v}
        {e} binds to [[port]] {v}
        anything for {e} has to go through [[port]] {v}
        the firewall lets {e} through on [[port]] {v}
        the health check of {e} sits on [[port]] {v}""",
        """Which port does {e} listen on?
        On what port can I reach {e}?
        Where does {e} accept connections, by port number?
        Which port should the client of {e} use?
        What number goes after the colon in the address of {e}?""",
        """Open [[port]] {v} for {e}.
        Bind {e} to [[port]] {v}.
        Point the client at [[port]] {v} of {e}.""",
    ),
    attribute(
        "duration",
        (service, job, endpoint, setting),
        "timeout, request timeout, time limit, deadline for a call",
        words.duration,
        """{e} gives up after {v} ([[timeout]])
        {e} [[times out]] after {v}
        calls to {e} are cut off after {v}, that is the [[timeout]]
        the [[timeout]] in front of {e} was raised to {v}
        {e} waits {v} at most before it [[times out]]
        the [[timeout]] of {e} went down to {v}""",
        """After how long does {e} time out?
        How long does {e} wait before giving up?
        What is the longest that a call to {e} may take?
        How much time does {e} get before it is cut off?
        When does {e} run into its timeout?""",
        """Raise the [[timeout]] of {e} to {v}.
        Let {e} [[time out]] after {v}.
        Lower the [[timeout]] for {e} to {v}, not less.""",
    ),
    attribute(
        "duration",
        (store, service, job, environment),
        "retention, retention period, keeping time",
        words.duration,
        """{e} keeps its [[logs]] for {v}
        [[records]] in {e} are [[deleted]] after {v}
        we [[keep]] what is in {e} for {v}
        {e} [[drops]] everything older than {v}
        backups of {e} are [[kept]] for {v}
        {e} has to [[retain]] its data for {v}""",
        """How long are the records of {e} kept?
        After what time is the data of {e} deleted?
        How far back does {e} go?
        For how long do we hold on to what {e} stores?
        How old may data in {e} get?""",
        """[[Keep]] the data of {e} for {v} and not a day more.
        [[Purge]] {e} after {v}.""",
    ),
    attribute(
        "interval",
        (job, service, credential),
        "interval, period, polling interval, cycle",
        words.duration,
        """{e} [[runs every]] {v}
        {e} [[polls]] once in {v}
        there are {v} [[between]] two runs of {e}
        {e} is [[repeated]] every {v}
        {e} is [[rotated]] every {v}""",
        """How often does {e} run?
        How much time lies between two runs of {e}?
        At what interval is {e} repeated?
        What is the cycle of {e}?""",
        """[[Run]] {e} every {v}.
        [[Repeat]] {e} every {v} until told otherwise.""",
    ),
    attribute(
        "time",
        (job, service, environment),
        "start time, starting time, daily slot",
        words.time,
        """{e} [[starts]] at {v}
        {e} [[kicks off]] at {v} every day
        {e} is [[scheduled]] for {v}
        the [[window]] for {e} opens at {v}
        {e} now [[begins]] at {v}, after the traffic has died down""",
        """At what time does {e} start?
        When is {e} scheduled during the day?
        What is the daily slot of {e}?
        At which hour does {e} begin?""",
        """[[Start]] {e} at {v}.
        Move the [[start]] of {e} to {v}.""",
    ),
    attribute(
        "team",
        (service, job, store, module, environment, credential, endpoint),
        "owner, maintainer, owning team, responsible party",
        words.owner,
        """{e} [[belongs]] to {v}
        {v} [[owns]] {e}
        {v} [[looks after]] {e}
        {e} is [[maintained]] by {v}
        {e} was [[handed over]] to {v}
        {v} is [[responsible]] for {e}
        questions about {e} go to {v}, who [[own]] it
        {v} took [[over]] {e}
        {e} is in the [[care]] of {v}""",
        """Who owns {e}?
        Who is responsible for {e}?
        Whom do I ask about {e}?
        Who looks after {e}?
        In whose hands is {e}?
        Who maintains {e}?""",
        """[[Hand]] {e} over to {v}.
        Ask {v} about {e}; they [[own]] it.
        [[Assign]] {e} to {v}.""",
    ),
    attribute(
        "path",
        (service, job, store, environment, credential),
        "config file, settings file, path of the configuration",
        words.path,
        """{e} reads its [[configuration]] from {v}
        the [[settings]] of {e} are in {v}
        {e} is [[configured]] in {v}
        the [[config]] of {e} lives at {v}
        whoever edits the [[settings]] of {e} does it in {v}""",
        """Where is {e} configured?
        Which file holds the settings of {e}?
        Where does {e} read its configuration from?
        Which file must I edit to change a setting of {e}?""",
        """Edit {v} to [[configure]] {e}.
        Look for the [[settings]] of {e} in {v}.""",
    ),
    attribute(
        "path",
        (service, job, machine, test),
        "log file, log path, place of the logs",
        words.path,
        """{e} [[logs]] to {v}
        {e} writes its [[log]] to {v}
        the [[logs]] of {e} end up in {v}
        the [[messages]] of {e} can be read in {v}
        {v} has the [[log]] of {e}""",
        """Where does {e} log to?
        In which file do the messages of {e} end up?
        Where can I read the log of {e}?
        Which file collects the output of {e}?""",
        """Send the [[log]] of {e} to {v}.
        Tail {v} for the [[log]] of {e}.""",
    ),
    attribute(
        "path",
        (job, service, function, test),
        "output folder, output directory, target folder",
        words.folder,
        """{e} writes its [[results]] to {v}
        {e} puts the [[output]] under {v}
        what {e} [[produces]] lands in {v}
        the [[files]] of {e} are collected in {v}
        {e} [[dumps]] everything into {v}""",
        """Where does {e} put its output?
        In which folder do the results of {e} land?
        Where do I find what {e} produced?
        Which directory does {e} write to?""",
        """Let {e} write its [[output]] to {v}.
        Collect the [[results]] of {e} in {v}.""",
    ),
    attribute(
        "path",
        (function, module, test, setting, endpoint),
        "source file, file, place in the code",
        words.path,
        """{e} is [[defined]] in {v}
        {e} [[lives]] in {v}
        the [[code]] of {e} is in {v}
        {e} was [[moved]] to {v}
        you will find {e} in the [[file]] {v}
        {v} is the [[file]] that holds {e}""",
        """Where is {e} defined?
        Which file contains {e}?
        Where in the code do I find {e}?
        In what file does {e} live?""",
        """[[Move]] {e} to {v}.
        [[Put]] {e} into {v}.""",
    ),
    attribute(
        "version",
        (service, environment, machine, module),
        "version, release, deployed version",
        words.version,
        """{e} [[runs]] {v}
        {e} is [[on]] version {v}
        {e} was [[upgraded]] to {v}
        {e} is [[pinned]] to {v}
        {v} is what {e} is [[running]]
        {e} went back to [[version]] {v}
        the [[version]] deployed on {e} is {v}""",
        """Which version does {e} run?
        What version is {e} on?
        To which version is {e} pinned?
        Which release is deployed for {e}?
        What was {e} upgraded to?""",
        """[[Pin]] {e} to {v}.
        [[Upgrade]] {e} to {v}, no further.
        [[Roll]] {e} back to {v}.""",
    ),
    attribute(
        "branch",
        (ticket, release, service, module),
        "branch, working branch, git branch",
        words.branch,
        """the work on {e} is on the [[branch]] {v}
        {e} is [[developed]] on {v}
        all [[commits]] for {e} go to {v}
        {e} [[ships]] from {v}
        the [[branch]] for {e} is called {v}
        I [[pushed]] the changes for {e} to {v}""",
        """On which branch is the work for {e}?
        Which branch do the commits for {e} go to?
        Where did you push the changes for {e}?
        From which branch does {e} ship?""",
        """[[Push]] everything for {e} to {v}.
        [[Branch]] off for {e} as {v}.""",
    ),
    attribute(
        "region",
        (service, store, environment, job),
        "region, location, zone",
        REGIONS,
        """{e} is [[hosted]] in {v}
        {e} [[runs]] in {v}
        {e} was [[moved]] to {v}
        the data of {e} [[stays]] in {v}
        {v} is the [[region]] of {e}""",
        """In which region does {e} run?
        Where is {e} hosted?
        Which zone was {e} moved to?
        In what region does the data of {e} stay?""",
        """[[Deploy]] {e} to {v} only.""",
    ),
    attribute(
        "host",
        (service, job, store, environment),
        "host, machine, server",
        words.host,
        """{e} [[runs]] on {v}
        {e} is [[installed]] on {v}
        {e} [[sits]] on {v}
        {v} [[hosts]] {e}
        {e} has been [[moved]] over to {v}
        you reach {e} through the [[machine]] {v}""",
        """On which machine does {e} run?
        Which host is {e} on?
        Where is {e} installed?
        Which server hosts {e}?""",
        """[[Install]] {e} on {v}.
        [[Log in]] to {v} to get at {e}.""",
    ),
    attribute(
        "address",
        (machine, service, environment),
        "IP address, address, internal address",
        words.address,
        """{e} has the [[address]] {v}
        {e} [[resolves]] to {v}
        {e} can be pinged at {v}, its [[address]]
        the [[address]] handed out to {e} is {v}""",
        """What is the IP address of {e}?
        What does {e} resolve to?
        Under which address can {e} be pinged?""",
        """Give {e} the [[address]] {v}.""",
    ),
    attribute(
        "limit",
        (service, endpoint, job, store),
        "limit, maximum, upper limit, cap",
        words.count,
        """{e} takes at [[most]] {v} requests a minute
        {e} is [[capped]] at {v}
        {e} refuses more than {v} [[entries]]
        beyond {v} [[items]] {e} says no
        {e} will not accept more than {v} [[rows]] at once
        {e} allows {v} [[uploads]] per day""",
        """What is the most that {e} accepts?
        At what number is {e} capped?
        How much does {e} take before it says no?
        Where does the limit of {e} lie?""",
        """[[Cap]] {e} at {v}.
        [[Limit]] {e} to {v}.""",
    ),
    attribute(
        "number",
        (service, job, environment),
        "number of replicas, number of instances, replica count",
        words.small_count,
        """{e} has {v} [[replicas]]
        {v} [[copies]] of {e} share the load
        there are {v} [[instances]] of {e}
        {e} was [[scaled]] to {v} pods""",
        """How many replicas does {e} have?
        To how many instances was {e} scaled?
        How many copies of {e} are there?""",
        """[[Scale]] {e} to {v} replicas.
        Run {v} [[copies]] of {e}.""",
    ),
    attribute(
        "number",
        (service, job, function, machine),
        "number of threads, number of workers, degree of parallelism",
        words.small_count,
        """{e} starts {v} [[threads]]
        {e} runs with {v} [[workers]]
        {v} [[workers]] are busy in {e}
        {e} does {v} things at [[once]]
        {e} is [[parallel]] up to {v}""",
        """How many threads does {e} start?
        With how many workers does {e} run?
        How parallel is {e}?
        How many things does {e} do at once?""",
        """Give {e} {v} [[workers]].
        No more than {v} [[threads]] for {e}.""",
    ),
    attribute(
        "number",
        (service, function, job, endpoint),
        "number of retries, retry limit, number of attempts",
        words.small_count,
        """{e} [[retries]] {v} times
        {e} gives up after {v} [[attempts]]
        {e} makes {v} [[attempts]] before it reports an error
        a failed call to {e} is [[repeated]] {v} times""",
        """How many times does {e} retry?
        After how many attempts does {e} give up?
        How often is a failed call to {e} repeated?""",
        """Let {e} [[retry]] {v} times.""",
    ),
    attribute(
        "size",
        (service, job, machine, environment),
        "memory limit, memory, memory quota",
        words.size,
        """{e} gets {v} of [[memory]]
        {e} is killed above {v} of [[memory]]
        the [[memory]] of {e} ends at {v}
        {e} was given a [[heap]] of {v}
        {e} was [[sized]] at {v} of RAM""",
        """How much memory does {e} get?
        At what use of memory is {e} killed?
        How much RAM is there for {e}?
        How big is the heap of {e}?""",
        """Give {e} {v} of [[memory]].
        Raise the [[memory]] of {e} to {v}.""",
    ),
    attribute(
        "size",
        (store, machine, service, endpoint),
        "size limit, quota, disk quota, space",
        words.size,
        """{e} may take {v} of [[disk]]
        {e} is [[full]] at {v}
        the [[quota]] of {e} is {v}
        {e} has [[room]] for {v}
        there are {v} of [[space]] for {e}""",
        """How much disk may {e} take?
        What is the quota of {e}?
        How much space is there for {e}?
        At what size is {e} full?""",
        """Give {e} {v} of [[disk]].""",
    ),
    attribute(
        "number",
        (job, service, function, store),
        "batch size, chunk size, page size, group size",
        words.count,
        """{e} works in [[batches]] of {v}
        {e} sends {v} rows per [[batch]]
        {e} splits its input into [[chunks]] of {v}
        one [[page]] of {e} holds {v} entries""",
        """How large are the batches of {e}?
        How many rows does {e} take at a time?
        In chunks of what size does {e} work?""",
        """Use [[batches]] of {v} for {e}.""",
    ),
    attribute(
        "percentage",
        (service, machine, store, job),
        "alert threshold, threshold, warning level, alarm level",
        words.percentage,
        """{e} raises an [[alarm]] above {v}
        we are [[paged]] when {e} goes past {v}
        the [[alert]] for {e} fires at {v}
        {e} turns [[red]] at {v}
        if {e} passes {v}, the [[alarm]] goes off""",
        """At what level does the alarm of {e} go off?
        When are we paged for {e}?
        What is the threshold of the alert for {e}?
        How full may {e} get before it warns?""",
        """[[Alert]] on {e} at {v}.""",
    ),
    attribute(
        "percentage",
        (release, service, setting, endpoint),
        "rollout share, share of traffic, rollout",
        words.percentage,
        """{e} is [[rolled out]] to {v} of the users
        {v} of the [[traffic]] goes to {e}
        {e} [[takes]] {v} of all calls
        {e} is [[switched on]] for {v} of the accounts""",
        """For what share of users is {e} on?
        How much of the traffic goes to {e}?
        How far is {e} rolled out?""",
        """[[Roll]] {e} out to {v} first.""",
    ),
    attribute(
        "format",
        (job, store, endpoint, service),
        "format, file format, output format, data format",
        FORMATS,
        """{e} [[delivers]] {v}
        {e} [[writes]] {v}
        {e} speaks {v}, that is its [[format]]
        the [[files]] of {e} come as {v}
        {e} was [[switched]] to {v}
        only {v} is [[accepted]] by {e}""",
        """In what format does {e} deliver?
        What format do the files of {e} have?
        Which format was {e} switched to?
        How is the data of {e} encoded?""",
        """Let {e} [[write]] {v}.""",
    ),
    attribute(
        "database",
        (service, job, environment, module),
        "database, backend, storage engine, store",
        DATABASES,
        """{e} [[stores]] its rows in {v}
        {e} is [[backed]] by {v}
        {e} [[persists]] to {v}
        {e} was [[migrated]] to {v}
        behind {e} there is {v} as [[storage]]""",
        """Where does {e} store its rows?
        Which database is behind {e}?
        What was {e} migrated to?
        On which storage engine does {e} run?""",
        """[[Back]] {e} with {v}.""",
    ),
    attribute(
        "language",
        (service, job, module, endpoint),
        "language, programming language, implementation language",
        LANGUAGES,
        """{e} is [[written]] in {v}
        {e} was [[rewritten]] in {v}
        {e} is a {v} [[program]]
        the [[code]] behind {e} is {v}""",
        """In which language is {e} written?
        What was {e} rewritten in?
        Which programming language does {e} use?""",
        """[[Rewrite]] {e} in {v}.""",
    ),
    attribute(
        "library",
        (service, module, function, job),
        "library, dependency, client library",
        LIBRARIES,
        """{e} [[uses]] {v}
        {e} is [[built]] on {v}
        {e} [[depends]] on {v}
        we [[replaced]] the old client in {e} by {v}
        {e} [[imports]] {v}""",
        """Which library does {e} use?
        What is {e} built on?
        What does {e} depend on?""",
        """[[Use]] {v} in {e}.""",
    ),
    attribute(
        "method",
        (service, store, function, job),
        "algorithm, method, scheme, procedure",
        ALGORITHMS,
        """{e} [[compresses]] or hashes with {v}
        {e} relies on {v} as its [[algorithm]]
        {e} was [[changed]] to {v}
        the [[scheme]] in {e} is {v}""",
        """Which algorithm does {e} use?
        What method is used in {e}?
        What does {e} rely on as its scheme?""",
        """[[Switch]] {e} to {v}.""",
    ),
)
