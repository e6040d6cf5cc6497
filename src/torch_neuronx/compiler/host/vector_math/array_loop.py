"""One function of this package as a compiled loop over arrays, for measuring and testing it away from the code generator."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import llvmlite.binding as llvm
import numpy as np

_LLVM_TYPE = {"f32": "float", "f64": "double"}


class ArrayLoop:
    """``vm_<name>_<dtype>`` over contiguous arrays, compiled for ``cpu`` with ``features`` (both LLVM spellings; default: this machine).

    ``vector_width`` is LLVM's ``prefer-vector-width`` in bits. Calling returns a new array; ``run`` writes into one.
    """

    def __init__(
        self,
        definition: str,
        name: str,
        dtype: str,
        arity: int,
        *,
        cpu: str | None = None,
        features: str | None = None,
        vector_width: int = 512,
    ):
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple()
        self._machine = target.create_target_machine(
            cpu=cpu if cpu is not None else llvm.get_host_cpu_name(),
            features=features if features is not None else llvm.get_host_cpu_features().flatten(),
            opt=3,
            jit=True,
        )
        module = llvm.parse_assembly(definition + _loop_text(name, _LLVM_TYPE[dtype], dtype, arity, vector_width))
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = True
        options.slp_vectorization = False
        llvm.create_pass_builder(self._machine, options).getModulePassManager().run(
            module, llvm.create_pass_builder(self._machine, options)
        )
        self.assembly: str = self._machine.emit_assembly(module)
        self._dtype = np.dtype(np.float32 if dtype == "f32" else np.float64)
        self._arity = arity
        self._module = module
        self._engine: Any = None

    def __call__(self, *operands: np.ndarray) -> np.ndarray:
        result = np.empty_like(operands[0])
        self.run(result, *operands)
        return result

    def run(self, result: np.ndarray, *operands: np.ndarray) -> None:
        """result[i] = vm(operands[i]...) for all i."""
        self.bound(result, *operands)()

    def bound(self, result: np.ndarray, *operands: np.ndarray) -> Callable[[], None]:
        """``run`` on these arrays, checked now; calling it runs only the machine code. It keeps no array alive."""
        for array in (result, *operands):
            if array.dtype != self._dtype or not array.flags.c_contiguous or array.size != result.size:
                raise ValueError(f"array {array.dtype}[{array.size}]: needs contiguous {self._dtype}[{result.size}]")
        if self._engine is None:
            self._engine = llvm.create_mcjit_compiler(self._module, self._machine)
            self._engine.finalize_object()
            prototype = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (1 + self._arity))
            self._function = prototype(self._engine.get_function_address("array_loop"))
        return partial(self._function, result.size, result.ctypes.data, *(operand.ctypes.data for operand in operands))


def _loop_text(name: str, type_: str, dtype: str, arity: int, vector_width: int) -> str:
    pointers = "".join(f", ptr noalias %a{i}" for i in range(arity))
    loads = "\n".join(
        f"  %p{i} = getelementptr {type_}, ptr %a{i}, i64 %i\n  %x{i} = load {type_}, ptr %p{i}, align {4 if dtype == 'f32' else 8}"
        for i in range(arity)
    )
    arguments = ", ".join(f"{type_} %x{i}" for i in range(arity))
    return f"""
define void @array_loop(i64 %n, ptr noalias %out{pointers}) nounwind "prefer-vector-width"="{vector_width}" {{
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{loads}
  %y = call {type_} @vm_{name}_{dtype}({arguments})
  %po = getelementptr {type_}, ptr %out, i64 %i
  store {type_} %y, ptr %po
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
