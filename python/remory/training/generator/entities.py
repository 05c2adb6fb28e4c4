"""What facts of working sessions are told of: services, jobs, tables, files, machines, things, events, people's roles.

Each function draws one phrase as it stands in running text, with its article where it has one.
"""

from __future__ import annotations

import random

from remory.training.generator import words
from remory.training.generator.words import chance, pick

_STAGES = (
    "staging",
    "production",
    "test",
    "canary",
    "preview",
    "sandbox",
    "demo",
    "integration",
    "nightly",
    "EU",
    "US",
)
_JOBS = ("job", "export", "import", "backup", "sync", "cleanup", "report", "rebuild", "sweep", "pipeline", "migration")
_PERIODS = ("nightly", "hourly", "weekly", "daily", "monthly", "early", "late", "manual", "new", "old", "quarterly")
_STORES = ("table", "queue", "topic", "bucket", "index", "cache", "volume", "database", "collection", "stream", "shard")
_PARTS = (
    "parser",
    "scheduler",
    "uploader",
    "planner",
    "login page",
    "importer",
    "search box",
    "invoice module",
    "feed",
)
_EVENTS = ("meeting", "workshop", "review", "delivery", "inspection", "rehearsal", "course", "tour", "hearing", "sale")


def service(r: random.Random) -> str:
    """A service, as "kestrel", "the kestrel service", "the staging copy of kestrel"."""
    name = words.service(r)
    form = r.random()
    if form < 0.5:
        return name
    if form < 0.7:
        return f"the {name} {pick(r, ('service', 'daemon', 'deployment', 'process', 'container', 'pod', 'worker'))}"
    if form < 0.85:
        return f"{pick(r, _STAGES)} {name}"
    return f"the {pick(r, _STAGES)} {pick(r, ('copy', 'instance', 'build', 'deployment'))} of {name}"


def job(r: random.Random) -> str:
    """A job that runs from time to time: "the nightly export", "the invoice-sync job"."""
    form = r.random()
    if form < 0.4:
        return f"the {pick(r, _PERIODS)} {words.code_word(r)} {pick(r, _JOBS)}"
    if form < 0.7:
        return f"the {pick(r, _PERIODS)} {pick(r, _JOBS)}"
    return f"the {words.kebab(r)} {pick(r, ('job', 'task', 'cron', 'pipeline'))}"


def store(r: random.Random) -> str:
    """A place of data: "the invoices table", "the retry_queue topic"."""
    name = pick(r, (lambda q: words.code_word(q) + "s", words.snake, words.kebab))(r)
    return f"the {name} {pick(r, _STORES)}"


def machine(r: random.Random) -> str:
    """A machine: a host by its name, or "the build box in Alderwick"."""
    if chance(r, 0.7):
        return words.host(r)
    return f"the {pick(r, ('build', 'backup', 'test', 'print', 'file', 'mail', 'edge'))} {pick(r, ('box', 'server'))}"


def function(r: random.Random) -> str:
    """A function, a class or a method in code."""
    return pick(r, (words.function_name, words.function_name, words.pascal))(r)


def module(r: random.Random) -> str:
    """A file or a module of code, or a part of a program in words: "the parser"."""
    if chance(r, 0.3):
        return f"the {pick(r, _PARTS)}"
    return pick(r, (words.file_name, words.path, words.snake))(r)


def setting(r: random.Random) -> str:
    """A key of a configuration."""
    return pick(r, (words.snake, words.kebab, words.constant, words.camel))(r)


def endpoint(r: random.Random) -> str:
    """An endpoint of an interface: "/v2/invoices/batch", "GET /retry-backoff"."""
    route = words.route(r)
    return pick(r, (route, f"{pick(r, ('GET', 'POST', 'PUT', 'DELETE', 'PATCH'))} {route}", f"the {route} endpoint"))


def test(r: random.Random) -> str:
    """A test: "test_retry_backoff"."""
    return f"test_{words.snake(r)}"


def ticket(r: random.Random) -> str:
    return pick(r, ("{}", "{}", "ticket {}", "the ticket {}")).format(words.ticket(r))


def thing(r: random.Random) -> str:
    """A thing with its article: "the narrow kettle"."""
    return f"the {words.thing(r)}"


def product(r: random.Random) -> str:
    """A product or project."""
    return words.product(r)


def customer(r: random.Random) -> str:
    """A customer, a branch or a site: "the Alderwick branch", "Velmora"."""
    place = words.place(r)
    kind = pick(r, ("branch", "site", "office", "depot", "plant", "shop", "warehouse"))
    return pick(r, (words.pseudo_name(r), f"the {place} {kind}", f"the {kind} in {place}"))


def event(r: random.Random) -> str:
    """Something that takes place: "the stock count", "the kettle workshop", "the Alderwick tour"."""
    form = r.random()
    if form < 0.5:
        return words.activity(r)
    if form < 0.8:
        return f"the {words.noun(r)} {pick(r, _EVENTS)}"
    return f"the {words.place(r)} {pick(r, _EVENTS)}"


def crew(r: random.Random) -> str:
    """A team or a role."""
    return words.owner(r)


def release(r: random.Random) -> str:
    """A release: "release 2.14", "the Heron release"."""
    return pick(r, (f"release {words.version(r)}", f"the {words.product(r)} release", f"the {words.month(r)} release"))


def environment(r: random.Random) -> str:
    """An environment or a region of operation: "staging", "the Alderwick cluster"."""
    return pick(
        r,
        (
            f"{pick(r, _STAGES)}-{r.randint(2, 9)}",
            f"the {words.place(r)} cluster",
            f"the {pick(r, _STAGES)} environment",
            f"the {words.code_word(r)} cluster",
        ),
    )


def credential(r: random.Random) -> str:
    """A key, a certificate or a token: "the signing key of kestrel"."""
    name = pick(r, ("certificate", "API token", "signing key", "deploy key", "licence", "service account", "webhook"))
    return pick(r, (f"the {words.service(r)} {name}", f"the {name} of {words.service(r)}"))


def order(r: random.Random) -> str:
    """An order, an invoice or a parcel by its id: "order KX-4471"."""
    return f"{pick(r, ('order', 'invoice', 'parcel', 'shipment', 'claim', 'booking', 'batch', 'lot'))} {words.code(r)}"
