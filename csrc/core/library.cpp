#include "core/library.h"

#include <mutex>
#include <unordered_map>

#include "core/error.h"

namespace neuron {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<std::string, LibraryKernel> kernels;
};

Registry& registry() {
  static auto* const instance = new Registry;  // leaked: static initialisers of other files use it
  return *instance;
}

}  // namespace

void register_library_kernel(const std::string& symbol, LibraryKernel kernel) {
  std::lock_guard lock(registry().mutex);
  if (!registry().kernels.emplace(symbol, kernel).second) {
    throw InvalidArgument("library kernel '" + symbol + "' is registered twice");
  }
}

LibraryKernel find_library_kernel(const std::string& symbol) {
  std::lock_guard lock(registry().mutex);
  const auto found = registry().kernels.find(symbol);
  return found == registry().kernels.end() ? nullptr : found->second;
}

}  // namespace neuron
