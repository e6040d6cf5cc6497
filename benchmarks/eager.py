"""Models of the catalogue on device "neuron" against CPU eager: model × mode × precision × threads, medians of interleaved steps.

Every model and thread count has a process of its own. A ratio below 1 means that the device is faster. Run as
``python -m benchmarks.eager``; ``--write`` also puts the table and the picture into docs/.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from itertools import groupby, product
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.measuring.case import Case, MeasurementError, Record, first_step, measure_apart
from benchmarks.measuring.markdown import replace_section
from benchmarks.models import WORKLOADS

DOCS = Path(__file__).resolve().parents[1] / "docs"
MODES, PRECISIONS = ("training", "inference"), ("f32", "bf16")


def cases(models: Sequence[str], modes: Sequence[str], precisions: Sequence[str], threads: Sequence[int]) -> list[Case]:
    return [
        Case(model, mode, precision, count)
        for model, count, mode, precision in product(models, threads, modes, precisions)
        if mode == "inference" or WORKLOADS[model].trains
    ]


def columns_of(records: Sequence[Record]) -> list[tuple[str, str, int]]:
    return sorted({(r.case.mode, r.case.precision, r.case.threads) for r in records}, reverse=True)


def geometric_means(records: Sequence[Record]) -> list[str]:
    """Of the ratios, one per column and one of all."""
    per_column = [[r.ratio for r in records if (r.case.mode, r.case.precision, r.case.threads) == column] for column in columns_of(records)]
    return [f"{statistics.geometric_mean(ratios):.2f}" for ratios in (*per_column, [r.ratio for r in records])]


def ratio_rows(records: Sequence[Record]) -> list[list[str]]:
    """A row per model: its ratio in every column, and their geometric mean."""
    by_case = {r.case: r for r in records}
    rows = []
    for model in dict.fromkeys(r.case.model for r in records):
        own = [by_case.get(Case(model, *column)) for column in columns_of(records)]
        mean = statistics.geometric_mean([r.ratio for r in own if r is not None])
        rows.append([model, *(f"{r.ratio:.2f}" if r is not None else "" for r in own), f"{mean:.2f}"])
    return rows


def heading(column: tuple[str, str, int]) -> str:
    mode, precision, threads = column
    return f"{mode}, {precision}, {threads} thread{'s' if threads > 1 else ''}"


def time_rows(records: Sequence[Record], first_steps: dict[str, tuple[float, float]]) -> list[list[str]]:
    """A row per model, of f32 with one thread: step times, host time per launch, first steps."""
    rows = []
    for record in records:
        case = record.case
        if (case.precision, case.threads) != ("f32", 1) or (case.mode == "inference") == WORKLOADS[case.model].trains:
            continue
        firsts = [f"{seconds:.2f}" for seconds in first_steps[case.model]] if case.model in first_steps else ["", ""]
        numbers = (f"{record.neuron * 1e3:.1f}", f"{record.cpu * 1e3:.1f}", str(record.launches), f"{record.host_us:.1f}")
        rows.append([case.model, *numbers, *firsts, f"{record.loss_difference:.0e} in {record.steps}"])
    return rows


TIME_HEADINGS = ("model", "neuron ms", "CPU ms", "launches", "host µs each", "first step cold s", "warm s", "losses differ by, in steps")


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---", *["--:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def show(console: Console, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(title=title)
    for position, name in enumerate(headings):
        table.add_column(name, justify="right" if position else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Bars of the ratios, a group per model; the line is CPU eager."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    models = list(dict.fromkeys(r.case.model for r in records))
    columns = columns_of(records)
    figure, axes = pyplot.subplots(figsize=(9, 0.5 + 0.16 * len(models) * (len(columns) + 1)))
    for position, column in enumerate(columns):
        own = {r.case.model: r.ratio for r in records if (r.case.mode, r.case.precision, r.case.threads) == column}
        places = [row * (len(columns) + 1) + position for row, model in enumerate(models) if model in own]
        axes.barh(places, [own[model] for model in models if model in own], label=heading(column))
    axes.set_yticks([row * (len(columns) + 1) + len(columns) / 2 - 0.5 for row in range(len(models))], models)
    axes.invert_yaxis()
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set(xlabel="time of a step, neuron ÷ CPU eager", title="Eager")
    axes.legend(fontsize="small")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="MODEL", help=", ".join(WORKLOADS))
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES, help="default: both")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS, help="float32, and autocast to bfloat16")
    parser.add_argument(
        "--threads",
        nargs="+",
        type=int,
        default=[1],
        help="thread counts (default: 1; with more, OpenMP keeps a team for each device in the process, and both lose by it)",
    )
    parser.add_argument("--repeats", type=int, help="timed steps of each case (default: as many as fit into two seconds, 7 to 25)")
    parser.add_argument("--first-steps", action="store_true", help="also the first step of a process, with and without programs on disk")
    parser.add_argument("--write", action="store_true", help="write docs/performance.md's section and docs/images/eager.png")
    arguments = parser.parse_args()

    console = Console()
    chosen = cases(arguments.models, arguments.modes, arguments.precisions, arguments.threads)
    groups = [list(group) for _, group in groupby(chosen, key=lambda case: (case.model, case.threads))]
    records: list[Record] = []
    failures: list[str] = []
    for group in track(groups, "measuring", console=console):
        try:
            records += measure_apart(group, arguments.repeats)
        except MeasurementError as failure:
            failures.append(str(failure))
    trained = [model for model in arguments.models if WORKLOADS[model].trains]
    firsts = {
        model: first_step(Case(model, "training", "f32", 1))
        for model in (track(trained, "first steps", console=console) if arguments.first_steps else ())
    }
    if not records:
        raise SystemExit("nothing was measured: " + "; ".join(failures))
    ratio_headings = ["model", *map(heading, columns_of(records)), "mean"]
    ratios = [*ratio_rows(records), ["geometric mean", *geometric_means(records)]]
    times = time_rows(records, firsts)
    show(console, "A step, neuron ÷ CPU eager", ratio_headings, ratios)
    show(console, "A step in float32 with one thread (of training, where the model trains)", TIME_HEADINGS, times)
    if arguments.write:
        save_picture(records, DOCS / "images" / "eager.png")
        replace_section(DOCS / "performance.md", "eager", f"{markdown(ratio_headings, ratios)}\n\n{markdown(TIME_HEADINGS, times)}")
    if failures:
        console.print("not measured:", *failures, sep="\n  ", style="red", markup=False)
        raise SystemExit(1)


if __name__ == "__main__":
    main()
