"""The actor in SGLang as our side sees it: who it is, orders to the plug-in, and the tensors that come back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from remory.engines.base import ActorInfo, Source
from remory.engines.sglang.client import Call, Client, told
from remory.engines.sglang.exchange import Exchange
from remory.engines.sglang.launch import Server
from remory.engines.sglang.protocol import KEY, Greeting, Injection, Order, Report, runs_of
from remory.errors import EngineBusy, EngineFailed, InvalidInput

_ONLY_READ = {"max_new_tokens": 0, "temperature": 0.0}
_FIRST_GREETING_SECONDS = 60.0
_GREETING_SECONDS = 5.0
_SECONDS_BETWEEN_GREETINGS = 1.0
_UNKNOWN = "SGLang is asked whether it is the same as before"


class Remote:
    """The SGLang behind a `Server`. `folder`: the actor it must be running, as `ActorInfo` read from the folder.

    `seeds`: whether a request's seed decides its draws. `captured`: the only layers that a checkpoint may read, None if
    it may read any. `inline`: no folder is common, so that rows travel in requests.

    Raises EngineFailed when SGLang runs another actor or has no plug-in, EngineBusy when it does not answer.
    """

    def __init__(self, server: Server, exchange: Exchange, folder: ActorInfo) -> None:
        self._server = server
        self._exchange = exchange
        self._folder = folder
        self._client = Client(server)
        self._greeting = threading.Lock()
        self._known_at: tuple[str, int] | None = None
        self._lost: EngineBusy | EngineFailed | None = None
        self._greeted_at = 0.0
        self.seeds = False
        self.inline = True
        self.captured: tuple[int, ...] | None = None
        place = self._place()
        try:
            self.actor = self._greet(_FIRST_GREETING_SECONDS)
        except BaseException:
            self._client.close()
            raise
        self._known_at = place

    @property
    def running(self) -> int:
        """How many requests are under way."""
        return self._client.running

    def check(self) -> None:
        """Raises EngineBusy while SGLang does not answer, and EngineFailed when it came back as another one.

        After each loss of a request it is greeted, by one request of one token, which it answers before any other is
        sent. One that was exchanged while nobody asked for anything is noticed by the revision in every order.
        """
        if problem := self._server.problem():
            self._known_at = None
            raise EngineBusy(problem)
        if self._known_at == self._place():
            return
        # Whoever waits here cannot see whether its client is still there.
        if not self._greeting.acquire(timeout=_GREETING_SECONDS):
            raise EngineBusy(_UNKNOWN)
        try:
            if self._known_at != self._place():
                self._greet_again()
        finally:
            self._greeting.release()

    def send(
        self, ids: Tensor, order: Order | None = None, sampling: dict[str, Any] | None = None, **options: Any
    ) -> Call:
        """Send a prompt [T] with an order, or one to the same actor alone; without `sampling` it is only read."""
        order = order or Order(revision=self._folder.revision)
        params = (sampling or _ONLY_READ) | {"custom_params": {KEY: order.dump()}}
        return self._client.generate({"input_ids": ids.tolist(), "sampling_params": params, **options})

    def order(self, **wishes: Any) -> Order:
        """An order to this actor, with fields of `Order`."""
        return Order(**wishes, inline=self.inline, revision=self._folder.revision)

    def injection(self, source: Source) -> Injection | None:
        """A source's rows for an order, readable for the plug-in."""
        if source.rows is None or not len(source.rows):
            return None
        blob = self._exchange.put(source.rows, inline=self.inline)
        return Injection(blob, runs_of(source.positions.tolist()))

    def reports(self, calls: Iterable[Call]) -> list[Report]:
        """Wait for all of some requests, which are sent as `calls` gives them. When one fails, or cannot be sent, the
        others are cancelled. Raises as `Call.result` and `report_of` do.
        """
        sent: list[Call] = []
        try:
            for call in calls:
                sent.append(call)
            return [report_of(call.result()) for call in sent]
        finally:
            for call in sent:
                call.cancel()

    def tensor(self, report: Report, rows: int) -> Tensor:
        """The tensor [rows, D] that came with a report. Raises EngineFailed when it is not there or another shape."""
        blob = report.blob
        if blob is None or (blob.rows, blob.width) != (rows, self.actor.width):
            found = "nothing" if blob is None else f"[{blob.rows}, {blob.width}]"
            raise EngineFailed(f"SGLang gave {found} where [{rows}, {self.actor.width}] was asked for")
        try:
            return self._exchange.get(blob)
        except InvalidInput as error:
            raise EngineFailed(f"what SGLang gave cannot be read: {error}") from error

    def close(self) -> None:
        """End every request with EngineBusy; then stop SGLang, if it is ours."""
        self._client.close()
        self._server.close()

    def _greet_again(self) -> None:
        """Greet an SGLang that was lost, or say again what was found when that was tried just before."""
        if self._lost is not None and time.monotonic() - self._greeted_at < _SECONDS_BETWEEN_GREETINGS:
            raise type(self._lost)(str(self._lost))
        place = self._place()
        try:
            self._check_equal(self._greet(_GREETING_SECONDS))
        except (EngineBusy, EngineFailed) as error:
            self._lost, self._greeted_at = error, time.monotonic()
            raise
        self._known_at, self._lost = place, None

    def _check_equal(self, actor: ActorInfo) -> None:
        # How much its cache holds can differ a little from one start to the next; it refuses what is too long itself.
        if replace(actor, context_length=self.actor.context_length) != self.actor:
            raise EngineFailed("SGLang was started again with other settings: start this server again too")

    def _greet(self, seconds: float) -> ActorInfo:
        # Without a revision: another actor is to say who it is.
        call = self.send(torch.zeros(1, dtype=torch.int64), Order(greeting=True))
        greeting = report_of(call.result(seconds)).greeting
        if greeting is None:
            raise EngineFailed("the plug-in in SGLang did not say who it is")
        self._check_same(greeting)
        self.seeds, self.captured = greeting.seeds, greeting.captured
        self.inline = not _same_folder(self._exchange.folder, greeting.exchange)
        return replace(
            self._folder,
            dtype=greeting.dtype,
            device=greeting.device,
            context_length=min(self._folder.context_length, greeting.context_length),
        )

    def _place(self) -> tuple[str, int]:
        """What differs when another SGLang may have come back."""
        return self._server.url, self._client.losses

    def _check_same(self, greeting: Greeting) -> None:
        differing = [
            f"{name} {getattr(greeting, name)}, not {getattr(self._folder, name)}"
            for name in ("revision", "width", "layers", "vocabulary")
            if getattr(greeting, name) != getattr(self._folder, name)
        ]
        if differing:
            raise EngineFailed(f"SGLang runs another actor than {self._folder.name}: it has {'; '.join(differing)}")


def report_of(answer: dict[str, Any]) -> Report:
    """The plug-in's report in an answer of SGLang's. Raises EngineFailed when there is none, or with its words."""
    reports = answer["meta_info"].get(KEY)
    if not reports:
        raise EngineFailed(
            "this SGLang runs without Remory's plug-in: install remory where SGLang is installed and start it again"
        )
    try:
        report = Report.load(reports[-1])
    except InvalidInput as error:
        raise EngineFailed(f"the plug-in in SGLang does not speak our version: {error}") from error
    if report.error is not None:
        raise EngineFailed(f"SGLang could not do its part: {told(report.error)}")
    return report


def _same_folder(ours: Path | None, theirs: str | None) -> bool:
    return ours is not None and theirs is not None and ours.resolve() == Path(theirs).resolve()
