"""The benchmarks' own machinery, on what it measures rather than how fast that is."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.eager import cases, geometric_means, ratio_rows
from benchmarks.measuring import case as measuring
from benchmarks.measuring.case import Case, Record, Trainee, interleaved
from benchmarks.measuring.markdown import replace_section
from benchmarks.models import WORKLOADS


def record(model: str, threads: int, ratio: float) -> Record:
    return Record(Case(model, "training", "f32", threads), ratio, 1.0, 1.0, 10, 0.0, 9)


def test_both_devices_compute_the_same_losses() -> None:
    workload = WORKLOADS["gpt"]
    case = Case("gpt", "training", "f32", 1)
    model, batch = workload.model("small"), workload.batch("small")
    trainees = [Trainee(workload, device, case, model, batch) for device in ("neuron", "cpu")]
    for _ in range(3):
        for trainee in trainees:
            assert trainee.timed_step() > 0
    assert trainees[0].losses == pytest.approx(trainees[1].losses, rel=1e-5)
    assert trainees[0].losses[2] < trainees[0].losses[0]


def test_a_record_of_a_small_model() -> None:
    result = measuring.measure(Case("gpt", "training", "f32", 1), repeats=3, size="small")
    assert result.neuron > 0 and result.cpu > 0 and result.host_us > 0
    assert result.launches > 50
    assert result.steps == measuring.WARM_UPS + 3
    assert result.loss_difference < 1e-4


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(measuring.MeasurementError, match=r"no model, 1 threads: .*invalid choice: 'no model'"):
        measuring.measure_apart([Case("no model", "training", "f32", 1)])


def test_repeats_are_interleaved_in_both_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "SECONDS", 0.0)
    calls: list[str] = []

    def function(name: str) -> float:
        calls.append(name)
        return float(len(calls))

    results = interleaved(lambda: function("a"), lambda: function("b"))
    assert [len(each) for each in results] == [measuring.LEAST_REPEATS] * 2
    assert calls[:4] == ["b", "a", "a", "b"]


def test_a_model_that_does_not_train_has_inference_only() -> None:
    assert [case.mode for case in cases(["llama decode"], ["training", "inference"], ["f32"], [1])] == ["inference"]


def test_means_are_geometric() -> None:
    records = [record("gpt", 1, 0.5), record("gpt", 2, 2.0), record("vit", 1, 2.0), record("vit", 2, 2.0)]
    assert [row[-1] for row in ratio_rows(records)] == ["1.00", "2.00"]
    assert geometric_means(records) == ["2.00", "1.00", "1.41"]


def test_a_section_is_replaced_and_must_be_there(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- x -->\nold\n<!-- /x -->\nafter\n")
    replace_section(page, "x", "new \\1")
    assert page.read_text() == "before\n<!-- x -->\nnew \\1\n<!-- /x -->\nafter\n"
    with pytest.raises(ValueError, match="0 sections <!-- y -->"):
        replace_section(page, "y", "")
