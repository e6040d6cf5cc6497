// The installed way to use several threads.
#pragma once

#include "core/executable.h"

namespace neuron {

ParallelFor parallel_for() noexcept;

}  // namespace neuron
