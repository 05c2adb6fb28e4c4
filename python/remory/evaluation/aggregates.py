"""From the records of played sessions to figures with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from remory.evaluation import arms
from remory.evaluation.bootstrap import Bootstrap, Estimate
from remory.evaluation.measures import age_bin

Record = dict[str, Any]
Values = list[list[float]]

ALL = "all"
RARE = 5
OTHER = "other"
# What every arm is compared with.
REFERENCES = (arms.FULL, arms.SUMMARY, arms.LAST_TEXT, arms.RETRIEVED, arms.ANOTHER)
COMPARED = ("exact_match", "answer_loss")


def summarise_results(sessions: Sequence[Record], seed: int = 0) -> Record:
    """The figures of all sessions together ("all") and of each set: a stage's figures by its number as text.

    Each figure is {"value", "low", "high", "count"}: see `Estimate`. The intervals come from drawing whole sessions.
    """
    groups = {ALL: list(sessions)}
    for session in sessions:
        groups.setdefault(session["set"], []).append(session)
    return {name: _group(group, seed) for name, group in groups.items()}


def _group(sessions: Sequence[Record], seed: int) -> Record:
    numbers = sorted({stage["stage"] for session in sessions for stage in session["stages"]})
    figures: Record = {}
    for number in numbers:
        stages = [stage for session in sessions for stage in session["stages"] if stage["stage"] == number]
        figures[str(number)] = _Figures(stages, seed).all()
    return figures


class _Figures:
    """The figures of one stage; `stages` has one record of each session."""

    def __init__(self, stages: Sequence[Record], seed: int):
        self._stages = stages
        self._bootstrap = Bootstrap(len(stages), seed)
        self._kinds = Counter(question["kind"] for question in self._known())

    def all(self) -> Record:
        """Everything, as JSON-able values."""
        history, rows = (sum(stage[name] for stage in self._stages) for name in ("history_tokens", "rows"))
        return {
            "sessions": len(self._stages),
            "history_tokens": history / len(self._stages),
            "summary_tokens": sum(stage["summary_tokens"] for stage in self._stages) / len(self._stages),
            "rows": rows / len(self._stages),
            "ratio": history / rows,
            "questions": sum(len(stage["questions"]) for stage in self._stages),
            "arms": {arm: self._arm(arm) for arm in self._names()},
        }

    def _names(self) -> list[str]:
        return [arm for arm in arms.ARMS if any(arm in stage["arms"] for stage in self._stages)]

    def _arm(self, arm: str) -> Record:
        harm = self._texts(arm, "foreign_loss"), self._texts(arms.SUMMARY, "foreign_loss")
        return {
            "exact_match": self._mean(self._values(arm, "exact_match")),
            "answer_loss": self._mean(self._values(arm, "answer_loss")),
            "refusal": self._mean(self._values(arm, "refusal", absent=True)),
            "refusal_of_known": self._mean(self._values(arm, "refusal")),
            "following_loss": self._mean(self._texts(arm, "following_loss")),
            "harm": self._bootstrap.difference(*harm).figures(),
            "context_tokens": self._mean(self._values(arm, "context_tokens")),
            "by_type": self._by(arm, lambda question: question["type"]),
            "by_kind": self._by(arm, self._kind),
            "by_age": self._by(arm, lambda question: age_bin(question["age_tokens"])),
            "by_compactions_ago": self._by(arm, lambda question: str(question["compactions_ago"])),
            "against": {other: self._against(arm, other) for other in REFERENCES if other in self._names()},
        }

    def _against(self, arm: str, other: str) -> Record:
        compared: Record = {}
        for measure in COMPARED:
            pair = self._values(arm, measure, beside=other), self._values(other, measure, beside=arm)
            compared[f"{measure}_difference"] = self._bootstrap.difference(*pair).figures()
            compared[f"{measure}_ratio"] = self._bootstrap.ratio(*pair).figures()
        return compared

    def _by(self, arm: str, group_of: Callable[[Record], str]) -> Record:
        groups = sorted({group_of(question) for question in self._known()}, key=_group_order)
        return {group: self._of_group(arm, group_of, group) for group in groups}

    def _of_group(self, arm: str, group_of: Callable[[Record], str], group: str) -> Record:
        def chosen(question: Record) -> bool:
            return group_of(question) == group

        return {measure: self._mean(self._values(arm, measure, chosen=chosen)) for measure in COMPARED}

    def _kind(self, question: Record) -> str:
        return question["kind"] if self._kinds[question["kind"]] >= RARE else OTHER

    def _known(self) -> list[Record]:
        """The questions of all sessions that have an answer."""
        return [question for stage in self._stages for question in stage["questions"] if question["type"] != "absent"]

    def _values(
        self,
        arm: str,
        measure: str,
        absent: bool = False,
        beside: str | None = None,
        chosen: Callable[[Record], bool] = lambda question: True,
    ) -> Values:
        """For each session the values of an arm; only of questions that `beside` was asked too, and of those chosen."""
        return [
            [
                _value(question["arms"][arm], measure)
                for question in stage["questions"]
                if (question["type"] == "absent") == absent
                and arm in question["arms"]
                and (beside is None or beside in question["arms"])
                and chosen(question)
            ]
            for stage in self._stages
        ]

    def _texts(self, arm: str, measure: str) -> Values:
        return [
            [stage["arms"][arm][measure]] if measure in stage["arms"].get(arm, {}) else [] for stage in self._stages
        ]

    def _mean(self, values: Values) -> Record:
        estimate: Estimate = self._bootstrap.mean(values)
        return estimate.figures()


def _value(answer: Record, measure: str) -> float:
    names = {"exact_match": "right", "answer_loss": "loss"}
    return float(answer[names.get(measure, measure)])


def _group_order(group: str) -> tuple[int, int, str]:
    """Ages and numbers by size, words by the alphabet, what is bundled last."""
    head = group.split("-")[0].rstrip("+")
    if head.isdigit():
        return 0, int(head), group
    return 1, int(group == OTHER), group
