"""Puts this directory on the import path, so that tests below it find ``interpreted``."""

import pytest
import torch


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Random inputs are the same in every run, and with them the distance from a tolerance."""
    torch.manual_seed(0)
