"""The figures of an evaluation as tables: on the console, and as Markdown for a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from remory.evaluation import arms
from remory.evaluation.aggregates import ALL, REFERENCES

Record = dict[str, Any]

_READING = (
    "Intervals are 95 %, from drawing whole sessions 10,000 times. «right»: the expected words stand in the greedy "
    "answer. «loss of the answer»: nats a token of the expected answer, lower is better; it tells arms apart long "
    "before a small actor says the right words. «says unknown»: of questions whose answer was never told / of those "
    "whose answer was; a pattern of wordings, and so a weak measure. «following text»: nats a token of the session's "
    "next tokens. «harm»: nats a token that a foreign text loses beside the summary alone. A memory carries its own "
    "history only where it does better than «summary», than the same room of text, and than another's memory."
)


@dataclass(frozen=True)
class Grid:
    """A table: a title, the heads of its columns, and rows whose first cell says what they are of."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]] = field(default_factory=list)

    def rich(self) -> Table:
        """For a console."""
        table = Table(title=self.title, title_justify="left", title_style="bold")
        for place, column in enumerate(self.columns):
            table.add_column(column, justify="right" if place else "left")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """For a file."""
        lines = [
            f"## {self.title}\n",
            f"| {' | '.join(self.columns)} |",
            f"|{' --- |' * len(self.columns)}",
            *(f"| {' | '.join(row)} |" for row in self.rows),
        ]
        return "\n".join(lines).replace("**", "")


def print_report(console: Console, results: Record) -> None:
    """The tables of the stages and what to make of them."""
    console.print()
    for grid in _main_grids(results):
        console.print(grid.rich())
        console.print()
    console.print(f"[bold]How to read this.[/] {_told(results)}")


def write_markdown(results: Record) -> str:
    """All tables, those by age, kind and type too."""
    grids = [*_main_grids(results), *_detail_grids(results)]
    server = results["server"]
    head = f"# Evaluation of {server['checkpoint']['name']} on {server['actor']['name']}\n\n{_told(results)}\n"
    return "\n".join([head, *(f"{grid.markdown()}\n" for grid in grids)])


def _told(results: Record) -> str:
    checkpoint = results["server"]["checkpoint"]
    failed = sum(session["failed_summaries"] for session in results["sessions"])
    lines = [_READING]
    if not checkpoint["trained"]:
        lines.append(f"The checkpoint {checkpoint['name']} says of itself that it is untrained.")
    if failed:
        lines.append(f"{failed} times the actor wrote an empty summary, and a placeholder stands for it.")
    return " ".join(lines)


def _main_grids(results: Record) -> Iterator[Grid]:
    everything = results["aggregates"][ALL]
    for stage, figures in everything.items():
        yield _stage_grid(stage, figures)
        if arms.MEMORY in figures["arms"]:
            yield _comparison_grid(stage, figures)
    if len(results["aggregates"]) > 2:
        yield from (_set_grid(stage, results["aggregates"]) for stage in everything)


def _detail_grids(results: Record) -> Iterator[Grid]:
    titles = {
        "by_age": "tokens between the answer and the end of the removed history",
        "by_compactions_ago": "compactions since the answer was removed",
        "by_type": "type of question",
        "by_kind": "kind of fact",
    }
    for stage, figures in results["aggregates"][ALL].items():
        for name, title in titles.items():
            yield _split_grid(f"Stage {stage}: right, by {title}", figures["arms"], name)


def _stage_grid(stage: str, figures: Record) -> Grid:
    count = f"{figures['sessions']} session{'s' if figures['sessions'] > 1 else ''}"
    title = (
        f"After {_counted(stage)}: {count}, {figures['questions']} questions, {figures['history_tokens']:,.0f} tokens "
        f"removed, {figures['rows']:.0f} rows (1 for {figures['ratio']:.1f} tokens), summary of "
        f"{figures['summary_tokens']:.0f} tokens"
    )
    columns = ["", "right", "loss of the answer", "says unknown", "following text", "harm", "context"]
    rows = [
        [
            arms.LABELS[arm],
            _percent(one["exact_match"]),
            _number(one["answer_loss"]),
            f"{_short(one['refusal'])} / {_short(one['refusal_of_known'])}",
            _number(one["following_loss"]),
            _number(one["harm"], signed=True),
            _plain(one["context_tokens"]),
        ]
        for arm, one in figures["arms"].items()
    ]
    return Grid(title, columns, rows)


def _comparison_grid(stage: str, figures: Record) -> Grid:
    rows = []
    for arm in (arms.MEMORY, arms.MEMORY_RETRIEVED):
        against = figures["arms"].get(arm, {}).get("against", {})
        for other in REFERENCES:
            if other in against and other != arm:
                pair = against[other]
                rows.append(
                    [
                        f"{arms.LABELS[arm]} against {arms.LABELS[other]}",
                        _percent(pair["exact_match_difference"], signed=True),
                        _number(pair["exact_match_ratio"]),
                        _number(pair["answer_loss_difference"], signed=True),
                    ]
                )
    return Grid(
        f"After {_counted(stage)}: compared",
        ["", "right, difference", "right, ratio", "loss of the answer, difference"],
        rows,
    )


def _set_grid(stage: str, aggregates: Record) -> Grid:
    groups = {name: group[stage]["arms"] for name, group in aggregates.items() if name != ALL and stage in group}
    names = [arm for arm in arms.ARMS if any(arm in group for group in groups.values())]
    rows = [
        [arms.LABELS[arm], *(_percent(group[arm]["exact_match"]) if arm in group else "" for group in groups.values())]
        for arm in names
    ]
    return Grid(f"After {_counted(stage)}: right, by set", ["", *groups], rows)


def _split_grid(title: str, figures: Record, name: str) -> Grid:
    groups = list(dict.fromkeys(group for one in figures.values() for group in one[name]))
    first = next(iter(figures.values()))[name]
    heads = [f"{group} ({first[group]['exact_match']['count']})" for group in groups]
    rows = [
        [arms.LABELS[arm], *(_percent(one[name][group]["exact_match"]) for group in groups)]
        for arm, one in figures.items()
    ]
    return Grid(title, ["", *heads], rows)


def _counted(stage: str) -> str:
    return "1 compaction" if stage == "1" else f"{stage} compactions"


def _percent(figure: Record, signed: bool = False) -> str:
    return _with_interval(figure, lambda value: f"{100 * value:{'+' if signed else ''}.0f}", " %")


def _number(figure: Record, signed: bool = False) -> str:
    return _with_interval(figure, lambda value: f"{value:{'+' if signed else ''}.2f}", "")


def _with_interval(figure: Record, form: Any, unit: str) -> str:
    if figure["value"] is None:
        return ""
    if figure["low"] is None:
        return f"{form(figure['value'])}{unit}"
    return f"{form(figure['value'])}{unit} [{form(figure['low'])}, {form(figure['high'])}]"


def _short(figure: Record) -> str:
    return "-" if figure["value"] is None else f"{100 * figure['value']:.0f} %"


def _plain(figure: Record) -> str:
    return "" if figure["value"] is None else f"{figure['value']:,.0f}"
