// What happens to an op that has no native program: it runs on the CPU, visibly, or is refused.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace neuron::torch_face {

enum class FallbackPolicy : std::uint8_t {
  kWarn,    // one UserWarning per op name
  kSilent,  // counted only
  kError,   // NotImplementedError naming the op and the Python line
};

// Of the process; any thread may change it at any time.
FallbackPolicy fallback_policy();
void set_fallback_policy(FallbackPolicy policy);

// Runs `op` on the CPU: arguments are copied to the host, results and written arguments back. Subject to the policy; counted. An op
// without a CPU kernel that PyTorch composes of others is run as they are instead, which is no fallback.
// Random ops draw from a CPU generator that is seeded by the device's generator, so the CPU's own generator is left alone.
// `hidden_writes`: indices of tensor arguments that the op writes although its schema does not say so.
void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack, std::span<const int> hidden_writes = {});

// Invocations by schema name with overload ("aten::scatter_reduce.two_out") since the last clear.
std::map<std::string, std::uint64_t> fallback_counts();
void clear_fallback_counts();
// Since the process started.
std::uint64_t total_fallbacks();

}  // namespace neuron::torch_face
