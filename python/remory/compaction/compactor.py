"""Turns a session's history into a memory, and a memory into the prompt that goes on from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from remory.compaction.memory import Memory
from remory.compaction.pyramid import Node, Pyramid, leaf_spans, merge_to_budget, plan_pyramid
from remory.compaction.receipt import write_receipt
from remory.engines.base import EncodeRequest, EncodeResult, Engine, Fold, Leaf, Source
from remory.errors import EngineFailed, IncompatibleMemory, InvalidInput
from remory.network import Checkpoint, SummaryContract


class Compactor:
    """Compacts and restores with one engine and one checkpoint. Holds no state of its own; thread-safe.

    `earlier`: by identity the contracts of other checkpoints for the same actor, whose memories are restored too.
    Raises CheckpointError or InvalidInput for a checkpoint that does not fit the engine's actor.
    """

    def __init__(
        self, engine: Engine, checkpoint: Checkpoint, earlier: Mapping[str, SummaryContract] | None = None
    ) -> None:
        self.engine = engine
        self.checkpoint = checkpoint
        self.identity = checkpoint.identity(engine.actor.revision)
        self.contracts = {**(earlier or {}), self.identity: checkpoint.contract}
        self._network = engine.prepare(checkpoint)

    def compact(
        self,
        prefix_ids: Sequence[int] | Tensor,
        history_ids: Sequence[int] | Tensor,
        summary_ids: Sequence[int] | Tensor,
        previous: Memory | None = None,
        branches: Sequence[Memory] = (),
    ) -> Memory:
        """Encode the history under its prefix into a new memory; the ones given stay as they are.

        All token fields are one-dimensional and not empty, except `history_ids` when there is a branch, or with the
        strategy `reencode` a `previous`. A checkpoint of the published frontier form takes no branches.

        Raises InvalidInput (with the numbers) for input that does not fit, ContextOverflow, IncompatibleMemory for a
        memory of another identity, and EngineFailed; nothing is left behind then.
        """
        prefix, history, summary = (
            self._ids(name, ids)
            for name, ids in (("prefix_ids", prefix_ids), ("history_ids", history_ids), ("summary_ids", summary_ids))
        )
        self._check(prefix, history, summary, previous, branches)
        # A frontier keeps the nodes it is given; otherwise the old rows are read as source again.
        extend = self._extend_frontier if self.checkpoint.strategy == "frontier" else self._reencode
        work = extend(_present(previous, *branches), history)
        expanded = self._check_smaller(work.pyramid, summary, history, previous, branches)
        result = self.engine.encode(self._request(prefix, summary, work), self._network)
        rows = self._joined(result, len(work.pyramid.frontier))
        memory = Memory(prefix, summary, rows, tuple(work.raw_frontier()), self.identity, {})
        receipt = write_receipt(
            memory_rows=rows,
            rows_sha256=memory.rows_sha256,
            frontier=memory.frontier,
            source_tokens=len(work.positions),
            kept_tokens=work.kept_tokens,
            prefix_ids=prefix,
            history_ids=history,
            summary_ids=summary,
            previous=previous,
            branches=branches,
            strategy=self.checkpoint.strategy,
            expanded=expanded,
            features=result.features,
            timings_ms={"summary": 0.0, "leaves": 0.0, "merge": 0.0, **result.timings_ms},
        )
        return Memory(prefix, summary, rows, memory.frontier, self.identity, receipt | {"made_by": self._made_by()})

    def restore(self, memory: Memory, continuation_ids: Sequence[int] | Tensor) -> Source:
        """The restored prompt: prefix, summary and rows in the markers of what made them, continuation.

        Raises IncompatibleMemory for a memory of an identity that is neither this one nor an earlier one, InvalidInput
        for an empty continuation.
        """
        if memory.identity not in self.contracts:
            raise self._incompatible(memory)
        continuation = self._ids("input_ids", continuation_ids)
        if not len(continuation):
            raise InvalidInput("input_ids is empty: a continuation of at least 1 token follows the memory")
        prompt = _Context()
        prompt.add(memory.prefix_ids)
        self._add_memory(prompt, memory)
        head = prompt.length
        prompt.add(continuation)
        return prompt.source(cuts=(len(memory.prefix_ids), head))

    def check(self, memory: Memory) -> None:
        """Raises IncompatibleMemory unless this checkpoint and this actor made the memory."""
        if memory.identity != self.identity:
            raise self._incompatible(memory)

    def _incompatible(self, memory: Memory) -> IncompatibleMemory:
        """Says what the memory needs. Memories of earlier versions do not name what made them but by its identity."""
        own, made_by = self._made_by(), memory.receipt.get("made_by")
        checkpoint = f"checkpoint {made_by['checkpoint']}" if made_by else "the checkpoint"
        needed = f"{checkpoint} of identity {memory.identity[:12]}…"
        if made_by and made_by["actor_revision"] != own["actor_revision"]:
            needed += f" and actor {made_by['actor']} of revision {made_by['actor_revision'][:12]}…"
        return IncompatibleMemory(
            f"memory {memory.handle or ''} needs {needed}, which made it; this server has checkpoint "
            f"{own['checkpoint']} of identity {self.identity[:12]}… and actor {own['actor']} of revision "
            f"{own['actor_revision'][:12]}…"
        )

    def _made_by(self) -> dict[str, str]:
        actor = self.engine.actor
        return {"checkpoint": self.checkpoint.name, "actor": actor.name, "actor_revision": actor.revision}

    def _reencode(self, older: Sequence[Memory], history: Tensor) -> _Work:
        """Older summaries and rows, then the new history, all as source."""
        context = _Context()
        for memory in older:
            self._add_memory(context, memory, as_source=True)
        context.add_history(history)
        positions, depths = context.source_positions(), context.source_depths()
        block = self.checkpoint.block_tokens
        input_depths = [int(depths[start:stop].max()) for start, stop in leaf_spans(len(positions), block)]
        pyramid = self._planned(
            lambda: plan_pyramid(
                len(positions),
                budget=self.checkpoint.memory_budget,
                block=block,
                ratio=self.checkpoint.ratio,
                leaf_depths=[1 + depth for depth in input_depths],
            )
        )
        return _Work(context.source(), positions, input_depths, pyramid, block, spans=context.source_spans())

    def _extend_frontier(self, older: Sequence[Memory], history: Tensor) -> _Work:
        """The older nodes stay, one memory's behind another's; new history is read under them and joins as leaves."""
        context = _Context()
        nodes: list[Node] = []
        for memory in older:
            begin = context.add_kept(memory, self._placeholders(memory))
            nodes += [Node(begin + node.start, begin + node.stop, node.depth) for node in memory.frontier]
        begin = context.add_history(history)
        block, slots = self.checkpoint.block_tokens, self.checkpoint.geometry.slots
        leaves = [Node(begin + start, begin + stop, 1) for start, stop in leaf_spans(len(history), block)]
        pyramid = self._planned(
            lambda: merge_to_budget(
                [*nodes, *leaves],
                budget=self.checkpoint.memory_budget,
                rows_per_node=slots,
                ratio=self.checkpoint.ratio,
            )
        )
        return _Work(
            context.source(),
            context.source_positions(),
            [0] * len(leaves),
            pyramid,
            block,
            kept=[rows for memory in older for rows in memory.rows.split(slots)],
            kept_tokens=begin,
        )

    def _request(self, prefix: Tensor, summary: Tensor, work: _Work) -> EncodeRequest:
        conditioned = self.checkpoint.geometry.summary_conditioned
        before = torch.tensor(self.checkpoint.contract.summary_before_ids, dtype=torch.int64)
        return EncodeRequest(
            prefix_ids=prefix,
            context=work.context,
            positions=work.positions,
            leaves=[
                Leaf(start, stop, self._told(depth))
                for (start, stop), depth in zip(
                    leaf_spans(len(work.positions), work.block), work.input_depths, strict=True
                )
            ],
            folds=[
                Fold(merge.first, len(merge.children), self._told(merge.children[0].depth))
                for merge in work.pyramid.merges
            ],
            kept=work.kept,
            summary_ids=torch.cat([before, summary]) if conditioned else None,
            summary_tokens=len(summary) if conditioned else 0,
        )

    def _told(self, depth: int) -> int:
        """The depth that the network knows for `depth`: its table ends at max_depth - 1."""
        return min(depth, self.checkpoint.geometry.max_depth - 1)

    def _joined(self, result: EncodeResult, nodes: int) -> Tensor:
        expected = (self.checkpoint.geometry.slots, self.engine.actor.width)
        shapes = [tuple(rows.shape) for rows in result.nodes]
        if shapes != [expected] * nodes:
            raise EngineFailed(f"the engine returned nodes of shapes {shapes}, expected {nodes} of {expected}")
        rows = torch.cat(result.nodes)
        if not bool(rows.isfinite().all()):
            raise EngineFailed("the memory network gave rows that are not finite")
        return rows

    def _add_memory(self, context: _Context, memory: Memory, *, as_source: bool = False) -> None:
        contract = self.contracts[memory.identity]
        context.add(contract.summary_before_ids)
        context.add_summary(memory, as_source)
        context.add(contract.summary_after_ids)
        context.add(contract.memory_before_ids)
        context.add_rows(memory, self._placeholders(memory), as_source)
        context.add(contract.memory_after_ids)

    def _placeholders(self, memory: Memory) -> Tensor:
        return torch.full((len(memory.rows),), self.contracts[memory.identity].end_token_id)

    def _planned(self, plan: Callable[[], Pyramid]) -> Pyramid:
        try:
            return plan()
        except ValueError as error:
            raise InvalidInput(str(error)) from error

    def _check_smaller(
        self,
        pyramid: Pyramid,
        summary: Tensor,
        history: Tensor,
        previous: Memory | None,
        branches: Sequence[Memory],
    ) -> bool:
        """Whether the memory is no smaller than what it replaces: allowed only where little is new.

        Counted are the tokens behind the prefix, before and after: a memory has its markers in both.
        """
        markers = self.checkpoint.contract.markers
        soft = len(pyramid.frontier) * self.checkpoint.geometry.slots
        size = soft + len(summary) + markers
        folded = sum(len(old.summary_ids) + len(old.rows) for old in branches)
        kept = len(previous.summary_ids) + len(previous.rows) + markers if previous else 0
        replaced = kept + folded + len(history)
        if size < replaced:
            return False
        numbers = f"{soft} rows, {len(summary)} summary tokens and {markers} markers would replace {replaced} tokens"
        if not len(history) and not branches:
            raise InvalidInput(f"nothing new to compact: {numbers}")
        if folded + len(history) > self.checkpoint.block_tokens:
            raise InvalidInput(f"the memory would be no smaller than what it replaces: {numbers}")
        return True

    def _check(
        self, prefix: Tensor, history: Tensor, summary: Tensor, previous: Memory | None, branches: Sequence[Memory]
    ) -> None:
        for name, ids in (("prefix_ids", prefix), ("summary_ids", summary)):
            if not len(ids):
                raise InvalidInput(f"{name} is empty")
        if not len(history) and previous is None and not branches:
            raise InvalidInput("history_ids is empty, and there is neither a previous memory nor a branch")
        for memory in _present(previous, *branches):
            self.check(memory)
        if previous is not None and not torch.equal(previous.prefix_ids, prefix):
            raise InvalidInput(
                f"prefix_ids ({len(prefix)} tokens) differ from the prefix of the previous memory "
                f"({len(previous.prefix_ids)} tokens); keep the prefix identical"
            )
        if self.checkpoint.strategy == "frontier":
            if branches and not self.checkpoint.settings.keeps_branches:
                raise InvalidInput(f"{len(branches)} branches given; a frontier checkpoint cannot fold branches")
            if not len(history) and not branches:
                raise InvalidInput("history_ids is empty: a frontier checkpoint has nothing new to encode")

    def _ids(self, name: str, ids: Sequence[int] | Tensor) -> Tensor:
        try:
            # Copied, so that the caller's later changes do not reach into a memory.
            tensor = ids.clone() if isinstance(ids, Tensor) else torch.tensor(ids)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InvalidInput(f"{name} is not a list of token ids") from error
        if not tensor.numel():
            tensor = tensor.to(torch.int64)
        if tensor.dtype not in (torch.int64, torch.int32):
            raise InvalidInput(f"{name} holds {str(tensor.dtype).removeprefix('torch.')}, expected integers")
        tensor = tensor.to(torch.int64)
        if tensor.ndim != 1:
            raise InvalidInput(f"{name} has {tensor.ndim} dimensions, expected a flat list")
        vocabulary = self.engine.actor.vocabulary
        if len(tensor) and not (int(tensor.min()) >= 0 and int(tensor.max()) < vocabulary):
            wrong = int(tensor.min()) if int(tensor.min()) < 0 else int(tensor.max())
            raise InvalidInput(f"{name} holds {wrong}; token ids are in [0, {vocabulary})")
        return tensor


@dataclass
class _Work:
    """What the engine is to encode, and how its nodes map to the raw tokens of the lineage."""

    context: Source
    positions: Tensor
    input_depths: list[int]
    pyramid: Pyramid
    block: int
    kept: list[Tensor] = field(default_factory=list)
    kept_tokens: int = 0
    spans: tuple[Tensor, Tensor] | None = None

    def raw_frontier(self) -> list[Node]:
        """The frontier with spans of raw tokens; without `spans` it counts raw tokens already."""
        if self.spans is None:
            return self.pyramid.frontier
        starts, stops = self.spans
        return [Node(int(starts[node.start]), int(stops[node.stop - 1]), node.depth) for node in self.pyramid.frontier]


class _Context:
    """Tokens and rows in the order the actor reads them, and which of them are source tokens.

    Every source token stands for a span of raw tokens: itself, a row's share of its node, or nothing (a summary's
    token, whose text the rows beside it stand for).
    """

    def __init__(self) -> None:
        self.length = 0
        self._ids: list[Tensor] = []
        self._rows: list[Tensor] = []
        self._row_positions: list[Tensor] = []
        self._positions: list[Tensor] = []
        self._depths: list[Tensor] = []
        self._starts: list[Tensor] = []
        self._stops: list[Tensor] = []
        self._raw = 0

    def add(self, ids: Tensor | Sequence[int], rows: Tensor | None = None) -> Tensor:
        """Append tokens that are no source; returns their positions."""
        ids = torch.as_tensor(ids, dtype=torch.int64)
        positions = torch.arange(self.length, self.length + len(ids))
        self._ids.append(ids)
        self.length += len(ids)
        if rows is not None:
            self._rows.append(rows)
            self._row_positions.append(positions)
        return positions

    def add_history(self, ids: Tensor) -> int:
        """Append raw tokens as source; returns the raw index of the first."""
        begin = self._raw
        raw = torch.arange(begin, begin + len(ids))
        self._mark(self.add(ids), torch.zeros_like(ids), raw, raw + 1)
        self._raw += len(ids)
        return begin

    def add_kept(self, memory: Memory, placeholders: Tensor) -> int:
        """Append rows that are read and are no source; returns the raw index of the first token they stand for."""
        begin = self._raw
        self.add(placeholders, rows=memory.rows)
        self._raw += memory.source_total
        return begin

    def add_summary(self, memory: Memory, as_source: bool) -> None:
        positions = self.add(memory.summary_ids)
        if as_source:
            here = torch.full_like(positions, self._raw)
            self._mark(positions, torch.zeros_like(positions), here, here)

    def add_rows(self, memory: Memory, placeholders: Tensor, as_source: bool) -> None:
        positions = self.add(placeholders, rows=memory.rows)
        if not as_source:
            return
        each = len(memory.rows) // len(memory.frontier)
        row = torch.arange(each)
        for index, node in enumerate(memory.frontier):
            width = node.stop - node.start
            begin = self._raw + node.start
            self._mark(
                positions[index * each : (index + 1) * each],
                torch.full((each,), node.depth),
                begin + width * row // each,
                begin + width * (row + 1) // each,
            )
        self._raw += memory.source_total

    def source(self, cuts: tuple[int, ...] = ()) -> Source:
        ids = torch.cat(self._ids)
        if not self._rows:
            return Source(ids, cuts=cuts)
        return Source(ids, torch.cat(self._rows), torch.cat(self._row_positions), cuts)

    def source_positions(self) -> Tensor:
        return torch.cat(self._positions)

    def source_depths(self) -> Tensor:
        return torch.cat(self._depths)

    def source_spans(self) -> tuple[Tensor, Tensor]:
        return torch.cat(self._starts), torch.cat(self._stops)

    def _mark(self, positions: Tensor, depths: Tensor, starts: Tensor, stops: Tensor) -> None:
        self._positions.append(positions)
        self._depths.append(depths)
        self._starts.append(starts)
        self._stops.append(stops)


def _present(*memories: Memory | None) -> list[Memory]:
    return [memory for memory in memories if memory is not None]
