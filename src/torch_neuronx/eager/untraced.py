"""Python functions that the dispatcher calls: part of the device, not of the program that Dynamo traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch._C._dynamo import eval_frame

Function = TypeVar("Function", bound=Callable[..., Any])


def untraced(function: Function) -> Function:
    """Has Dynamo run ``function``, and all that it calls, as they are.

    Between the graphs of a compiled program every Python function that starts is traced, also one that an operator calls.
    ``torch.compiler.disable`` would do, but imports Dynamo, which takes a second.
    """
    skip = eval_frame._FrameAction.SKIP
    eval_frame.set_code_exec_strategy(function.__code__, eval_frame._FrameExecStrategy(skip, skip))
    return function
