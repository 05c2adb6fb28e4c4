"""What pytest runs: one test for all cases, which `session.Session` hands in. `python -m bench.kernels` starts it."""

from __future__ import annotations

from typing import Any

from bench.kernels.session import Session
from bench.kernels.work import Case


def test_case(case: Case, session: Session, benchmark: Any) -> None:
    session.run(case, benchmark)
