"""All cases, in the order of the table."""

from __future__ import annotations

from bench.kernels import attention, ceilings, collection, growth, indexes, movers, network, topk, vectors
from bench.kernels.work import Case, Context

_MODULES = (ceilings, movers, attention, network, topk, indexes, collection, growth)


def cases(context: Context, only: str = "") -> list[Case]:
    """Those whose id has the words `only`; the ceilings always."""
    every = [case for module in _MODULES for case in module.cases(context)]
    return [case for case in every if case.group == "ceilings" or only in f"{case.group} {case.id}"]


def clear() -> None:
    """Free the inputs that cases share."""
    for module in (vectors, indexes, collection, growth):
        module.clear()
