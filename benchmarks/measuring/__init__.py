"""What the benchmarks share: a case, how it is measured, and how its results are shown."""
