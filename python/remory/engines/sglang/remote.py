"""The actor in SGLang as our side sees it: who it is, orders to the plug-in, and the tensors that come back."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from remory.engines.base import ActorInfo, Source
from remory.engines.sglang.client import Call, Client
from remory.engines.sglang.exchange import Exchange
from remory.engines.sglang.launch import Server
from remory.engines.sglang.protocol import KEY, Greeting, Injection, Order, Report, runs_of
from remory.errors import EngineBusy, EngineFailed, InvalidInput

# SGLang takes prompts of fewer than its context length - 6 tokens, and shortens answers that would reach its end.
_RESERVED = 7
_ONLY_READ = {"max_new_tokens": 0, "temperature": 0.0}


class Remote:
    """The SGLang behind a `Server`. `folder`: the actor it must be running, as `ActorInfo` read from the folder.

    Raises EngineFailed when SGLang runs another actor or has no plug-in, EngineBusy or EngineFailed when it does not
    answer.
    """

    def __init__(self, server: Server, exchange: Exchange, folder: ActorInfo) -> None:
        self._server = server
        self._exchange = exchange
        self._folder = folder
        self._client = Client(server)
        self._greeting = threading.Lock()
        self._known_at: tuple[str, int] | None = None
        self.seeds = False
        self.inline = True
        try:
            self.actor = self._greet()
        except BaseException:
            self._client.close()
            raise

    @property
    def running(self) -> int:
        """How many requests are under way."""
        return self._client.running

    def check(self) -> None:
        """Raises EngineBusy while SGLang does not answer, and EngineFailed when it came back with another actor."""
        if problem := self._server.problem():
            self._known_at = None
            raise EngineBusy(problem)
        # One request of one token after each restart: who keeps SGLang may have given it another model meanwhile.
        with self._greeting:
            if self._known_at != self._place() and self._greet() != self.actor:
                self._known_at = None
                raise EngineFailed("SGLang was started again with other settings: start this server again too")

    def send(
        self, ids: Tensor, order: Order | None = None, sampling: dict[str, Any] | None = None, **options: Any
    ) -> Call:
        """Send a prompt [T]; without `sampling` it is only read."""
        params = dict(sampling or _ONLY_READ)
        if order is not None:
            params["custom_params"] = {KEY: order.dump()}
        return self._client.generate({"input_ids": ids.tolist(), "sampling_params": params, **options})

    def injection(self, source: Source) -> Injection | None:
        """A source's rows for an order, readable for the plug-in."""
        if source.rows is None or not len(source.rows):
            return None
        blob = self._exchange.put(source.rows, inline=self.inline)
        return Injection(blob, runs_of(source.positions.tolist()))

    def reports(self, calls: Sequence[Call]) -> list[Report]:
        """Wait for all of some requests; when one fails the others are cancelled. Raises as `Call.result` does."""
        try:
            return [report_of(call.result()) for call in calls]
        finally:
            for call in calls:
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

    def _greet(self) -> ActorInfo:
        place = self._place()
        (report,) = self.reports([self.send(torch.zeros(1, dtype=torch.int64), Order(greeting=True))])
        greeting = report.greeting
        if greeting is None:
            raise EngineFailed("the plug-in in SGLang did not say who it is")
        self._check_same(greeting)
        self.seeds = greeting.seeds
        self.inline = not _same_folder(self._exchange.folder, greeting.exchange)
        self._known_at = place
        return replace(
            self._folder,
            dtype=greeting.dtype,
            device=greeting.device,
            context_length=min(self._folder.context_length, greeting.context_length - _RESERVED),
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
    told = answer["meta_info"].get(KEY)
    if not told:
        raise EngineFailed(
            "this SGLang runs without Remory's plug-in: install remory where SGLang is installed and start it again"
        )
    try:
        report = Report.load(told[-1])
    except InvalidInput as error:
        raise EngineFailed(f"the plug-in in SGLang does not speak our version: {error}") from error
    if report.error is not None:
        raise EngineFailed(f"SGLang could not do its part: {report.error}")
    return report


def _same_folder(ours: Path | None, theirs: str | None) -> bool:
    return ours is not None and theirs is not None and ours.resolve() == Path(theirs).resolve()
