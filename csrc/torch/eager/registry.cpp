// The ops that have native programs, by name, and what is known of all of them together.
#include <c10/util/Exception.h>

#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "torch/device/gil.h"
#include "torch/eager/miss.h"
#include "torch/eager/native_op.h"
#include "torch/eager/unboxed.h"

namespace neuron::torch_face {
namespace {

// Never destroyed: kernels may run while the process ends.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<NativeOp>> ops;
  std::vector<c10::RegistrationHandleRAII> registrations;
  std::set<std::string> registered;  // ops whose kernel PyTorch's dispatcher has
  std::map<std::string, std::uint64_t> launched_at_clear;
};

Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

c10::OperatorName operator_name(const std::string& schema_name) {
  const auto dot = schema_name.find('.', schema_name.find("::"));
  if (dot == std::string::npos) return {schema_name, ""};
  return {schema_name.substr(0, dot), schema_name.substr(dot + 1)};
}

// The op, made with these static arguments if there is none yet.
NativeOp& find_or_add(const std::string& schema_name, std::span<const std::int64_t> static_arguments,
                      std::span<const std::int64_t> written_arguments) {
  std::lock_guard lock(registry().mutex);
  auto& op = registry().ops[schema_name];
  if (!op) {
    const auto name = operator_name(schema_name);
    const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(name.name.c_str(), name.overload_name.c_str());
    op = std::make_unique<NativeOp>(handle, plan_call(handle.schema(), static_arguments, written_arguments));
  }
  return *op;
}

}  // namespace

NativeOp& native_op(const std::string& schema_name) { return find_or_add(schema_name, {}, {}); }

void register_native_op(const std::string& schema_name, std::span<const std::int64_t> static_arguments,
                        std::span<const std::int64_t> written_arguments) {
  NativeOp& op = find_or_add(schema_name, static_arguments, written_arguments);
  std::lock_guard lock(registry().mutex);
  if (!registry().registered.insert(schema_name).second) return;
  registry().registrations.push_back(c10::Dispatcher::singleton().registerImpl(op.handle().operator_name(), c10::DispatchKey::PrivateUse1,
                                                                               kernel_of(op), /*cpp_signature=*/std::nullopt,
                                                                               /*inferred_function_schema=*/nullptr, "torch_neuronx"));
}

std::map<std::string, std::uint64_t> executed_counts() {
  std::lock_guard lock(registry().mutex);
  std::map<std::string, std::uint64_t> counts;
  for (const auto& [name, op] : registry().ops) {
    const std::uint64_t count = op->launched() - registry().launched_at_clear[name];
    if (count > 0) counts[name] = count;
  }
  return counts;
}

void clear_executed_counts() {
  std::lock_guard lock(registry().mutex);
  for (const auto& [name, op] : registry().ops) registry().launched_at_clear[name] = op->launched();
}

EagerStats eager_stats() {
  const MissStats missed = miss_stats();
  EagerStats stats{.misses = missed.misses, .compile_seconds = missed.compile_seconds};
  std::lock_guard lock(registry().mutex);
  for (const auto& [name, op] : registry().ops) {
    stats.native += op->launched();
    stats.declined += op->declined();
    stats.programs += op->cache().program_count();
  }
  return stats;
}

void clear_eager_cache() {
  const GilRelease release;  // a thread that is making a launch may need the GIL to end it
  std::lock_guard lock(registry().mutex);
  for (const auto& [name, op] : registry().ops) op->cache().clear();
}

}  // namespace neuron::torch_face
