"""All cases, in the order of the table."""

from __future__ import annotations

from bench.kernels import attention, ceilings, collection, growth, indexes, movers, network, topk, vectors
from bench.kernels.work import Case, Context

# What compiles longest comes late: a run that is ended keeps what it has.
_MODULES = (ceilings, movers, attention, topk, indexes, collection, network, growth)


def cases(context: Context, only: str = "") -> list[Case]:
    """Those whose id has the words `only`; the ceilings always."""
    every = [case for module in _MODULES for case in module.cases(context)]
    return [case for case in every if case.group == "ceilings" or only in f"{case.group} {case.id}"]


def clear() -> None:
    """Free the inputs that cases share."""
    for module in (vectors, indexes, collection, growth):
        module.clear()
