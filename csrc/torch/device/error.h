// Translates the runtime's errors to the exceptions that PyTorch turns into its Python types.
#pragma once

#include <c10/util/Exception.h>

#include <utility>

#include "core/error.h"

namespace neuron::torch_face {

// torch.AcceleratorError's error code for a command that failed on the device; the virtual core has no finer codes.
inline constexpr int kCommandFailed = 1;

// Rethrows the exception in flight: OutOfMemory → torch.OutOfMemoryError, CommandError → torch.AcceleratorError,
// InvalidArgument → RuntimeError. Anything else passes through.
[[noreturn]] void rethrow_translated();

// Runs `call` with the runtime's errors translated.
template <typename Call>
decltype(auto) translated(Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (...) {
    rethrow_translated();
  }
}

}  // namespace neuron::torch_face
