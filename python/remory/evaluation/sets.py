"""Sets of recorded sessions with questions, read from JSON files and checked before anything is played."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remory.errors import InvalidInput

DATA = Path(__file__).with_name("data")
HELD_OUT = "heldout_"
ABSENT = "absent"
TYPES = ("plain", "distractor", "updated", ABSENT)
_ROLES = ("user", "assistant", "tool")

Message = dict[str, str]


@dataclass(frozen=True)
class Question:
    """A question, and what a right answer says.

    The answer stands in message `message` of part `part`. `until`: the part that says otherwise, None if none does.
    `accept`: other forms that are as right. `type` absent: no message answers it.
    """

    question: str
    answer: str
    kind: str
    part: int
    message: int
    type: str
    until: int | None = None
    accept: tuple[str, ...] = ()

    @property
    def absent(self) -> bool:
        """Whether the session never says what is asked."""
        return self.type == ABSENT

    def is_asked_at(self, stage: int) -> bool:
        """Whether it is asked once `stage` parts are removed: its part is among them, and none that changes it."""
        return self.absent or (self.part < stage and (self.until is None or self.until >= stage))


@dataclass(frozen=True)
class Session:
    """A recorded session. Part k is what the k-th compaction removes; all parts follow each other."""

    id: str
    title: str
    system: str
    task: str
    parts: Sequence[Sequence[Message]]
    questions: Sequence[Question]
    field: str = ""

    @property
    def prefix(self) -> list[Message]:
        """What no compaction removes: the system message and the task."""
        return [{"role": "system", "content": self.system}, {"role": "user", "content": self.task}]

    def asked_at(self, stage: int, limit: int | None = None) -> list[tuple[int, Question]]:
        """The questions of a stage with their places in the list; of each part, and of the absent ones, `limit`."""
        counts: dict[object, int] = {}
        asked = []
        for place, question in enumerate(self.questions):
            group = ABSENT if question.absent else question.part
            if question.is_asked_at(stage) and (limit is None or counts.get(group, 0) < limit):
                counts[group] = counts.get(group, 0) + 1
                asked.append((place, question))
        return asked


@dataclass(frozen=True)
class SessionSet:
    """Sessions under one name. `sha256`: of the file they come from."""

    name: str
    description: str
    sessions: Sequence[Session]
    sha256: str
    path: Path = field(compare=False)

    def next_of(self, place: int) -> Session | None:
        """Whose memory stands in for that of session `place`: the one after it; None if there is no other."""
        return self.sessions[(place + 1) % len(self.sessions)] if len(self.sessions) > 1 else None

    def stranger_of(self, place: int) -> Session | None:
        """A session that has nothing to do with session `place`; None if there is no other.

        One of another field, where both name theirs, else the one half of the set away; where there is a choice, not
        the one that `next_of` gives.
        """
        count = len(self.sessions)
        if count < 2:
            return None
        half = max(count // 2, 2 if count > 2 else 1)
        order = [(place + half + step) % count for step in range(count)]
        others = [other for other in order if other != place]
        # Stable: what is next to it comes last of its kind.
        others.sort(key=lambda other: (self._is_alike(place, other), other == (place + 1) % count))
        return self.sessions[others[0]]

    def _is_alike(self, one: int, other: int) -> bool:
        return bool(self.sessions[one].field) and self.sessions[one].field == self.sessions[other].field


def shipped_sets() -> list[str]:
    """Names of the sets that come with the package."""
    return sorted(path.stem for path in DATA.glob("*.json"))


def held_out_sets() -> list[str]:
    """Names of those that nobody who trains a checkpoint has seen."""
    return [name for name in shipped_sets() if name.startswith(HELD_OUT)]


def load_set(name_or_file: str) -> SessionSet:
    """The set of that name, or in that file. Raises InvalidInput with all that is wrong with it."""
    path = DATA / f"{name_or_file}.json"
    if not path.is_file():
        path = Path(name_or_file).expanduser()
    if not path.is_file():
        known = ", ".join(shipped_sets()) or "none"
        raise InvalidInput(f"there is no set and no file {name_or_file!r}; those of the package: {known}")
    content = path.read_bytes()
    try:
        data = json.loads(content)
    except ValueError as error:
        raise InvalidInput(f"{path} is no JSON: {error}") from error
    if faults := list(find_faults(data)):
        shown = "; ".join(faults[:8]) + ("; …" if len(faults) > 8 else "")
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        raise InvalidInput(f"{path.name} has {count}: {shown}")
    sessions = [_session(session) for session in data["sessions"]]
    digest = hashlib.sha256(content).hexdigest()
    return SessionSet(str(data.get("name") or path.stem), str(data.get("description", "")), sessions, digest, path)


def find_faults(data: Any) -> Iterator[str]:
    """What is wrong with a set, in words with numbers; nothing if it can be played."""
    sessions = data.get("sessions") if isinstance(data, dict) else None
    if not isinstance(sessions, list) or not sessions:
        yield "a set is an object with a list 'sessions' of at least one session"
        return
    seen: set[str] = set()
    for place, session in enumerate(sessions):
        if not isinstance(session, dict):
            yield f"session {place} is no object"
            continue
        name = f"session {session.get('id', place)!r}"
        if session.get("id") in seen:
            yield f"{name} is there twice"
        seen.add(str(session.get("id")))
        yield from (f"{name}: {fault}" for fault in _session_faults(session))


def _session_faults(session: Mapping[str, Any]) -> Iterator[str]:
    missing = [key for key in ("id", "system", "task") if not isinstance(session.get(key), str)]
    if missing:
        yield f"no text under {', '.join(missing)}"
    parts = session.get("parts")
    if not isinstance(parts, list) or not parts or not all(isinstance(part, list) and part for part in parts):
        yield "'parts' must be a list of lists of messages, none of them empty"
        return
    wrong = [
        f"message {index} of part {number}"
        for number, part in enumerate(parts)
        for index, message in enumerate(part)
        if not _is_message(message)
    ]
    if wrong:
        yield f"{', '.join(wrong)}: a message has a role ({', '.join(_ROLES)}) and a text 'content'"
        return
    questions = session.get("questions")
    if not isinstance(questions, list) or not questions:
        yield "'questions' must be a list of at least one question"
        return
    for index, question in enumerate(questions):
        if fault := _question_fault(question, parts):
            yield f"question {index}: {fault}"


def _is_message(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") in _ROLES and isinstance(message.get("content"), str)


def _question_fault(question: Any, parts: Sequence[Sequence[Message]]) -> str | None:
    if not isinstance(question, dict) or not isinstance(question.get("question"), str):
        return "no object with a text 'question'"
    if question.get("type") not in TYPES:
        return f"the type is {question.get('type')!r}, expected one of {', '.join(TYPES)}"
    if question["type"] == ABSENT:
        return None
    answer, accept = question.get("answer"), question.get("accept", [])
    if not isinstance(answer, str) or not answer.strip():
        return "the answer is no text, or empty"
    if not isinstance(accept, list) or not all(isinstance(form, str) and form.strip() for form in accept):
        return "'accept' is no list of texts"
    part, message, until = question.get("part"), question.get("message"), question.get("until")
    if type(part) is not int or not 0 <= part < len(parts):
        return f"part is {part!r}, the session has parts 0 to {len(parts) - 1}"
    if type(message) is not int or not 0 <= message < len(parts[part]):
        return f"message is {message!r}, part {part} has messages 0 to {len(parts[part]) - 1}"
    if answer not in parts[part][message]["content"]:
        return f"the answer {answer!r} does not stand in message {message} of part {part}"
    if until is not None and (type(until) is not int or not part < until < len(parts)):
        return f"until is {until!r}, expected null or a part behind part {part}, up to {len(parts) - 1}"
    return None


def _session(data: Mapping[str, Any]) -> Session:
    return Session(
        id=data["id"],
        title=str(data.get("title", "")),
        system=data["system"],
        task=data["task"],
        parts=data["parts"],
        questions=[_question(question) for question in data["questions"]],
        field=str(data.get("field", "")),
    )


def _question(data: Mapping[str, Any]) -> Question:
    return Question(
        question=data["question"],
        answer=str(data.get("answer", "")),
        kind=str(data.get("kind", "")) or "other",
        part=data.get("part", 0),
        message=data.get("message", -1),
        type=data["type"],
        until=data.get("until"),
        accept=tuple(data.get("accept", ())),
    )
