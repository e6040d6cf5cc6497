// Programs made ready for launching.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <memory>
#include <string>

#include "torch/eager/cache.h"
#include "torch/eager/call.h"
#include "torch/eager/program.h"

namespace neuron::torch_face {

// The position in a call of what a binding calls `place`; throws if there is none.
using PositionOf = c10::function_ref<std::uint32_t(const Place& place)>;

// The program for calls like `call`: places become positions, and what a launch will not check again is checked. `name` is for errors.
std::unique_ptr<const LaunchPlan> resolve(const EagerProgram& program, const Call& call, const std::string& name, PositionOf position_of);

}  // namespace neuron::torch_face
