#include "core/config.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <set>
#include <string_view>

#include "core/error.h"

namespace neuron {
namespace {

// A trn2 or trn3 server has 16 chips of 8 physical cores; one chip is what a process gets unless it asks for more.
constexpr int kPhysicalCoresPerChip = 8;
constexpr int kMaxChips = 16;
constexpr std::int64_t kBytesPerPhysicalCore = 12LL << 30;  // 96 GiB HBM a chip
constexpr std::int64_t kMinCapacity = 2LL << 20;            // one segment
constexpr std::int64_t kMaxCapacity = 1LL << 40;

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

[[noreturn]] void refuse(const char* name, std::string_view value, const std::string& allowed) {
  throw InvalidArgument(std::string(name) + "='" + std::string(value) + "' is not valid; allowed: " + allowed);
}

// The whole text as a decimal number.
std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.front() == '-') return std::nullopt;
  return value;
}

std::string choice(const char* name, const std::string& fallback, std::initializer_list<const char*> allowed) {
  const auto value = variable(name);
  if (!value) return fallback;
  std::string listed;
  for (const char* candidate : allowed) {
    if (*value == candidate) return *value;
    listed += (listed.empty() ? "" : ", ") + std::string(candidate);
  }
  refuse(name, *value, listed);
}

bool flag(const char* name) { return choice(name, "0", {"0", "1"}) == "1"; }

// "0", "0-3", "1,3" and combinations: how many cores are listed.
int visible_cores(const char* name, const std::string& value, int limit) {
  const std::string allowed =
      "core numbers and ranges from 0 to " + std::to_string(limit - 1) + ", each core once, like '0', '0-3' or '1,3'";
  std::set<std::int64_t> cores;
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find(',', begin), value.size());
    const std::string_view item = std::string_view(value).substr(begin, end - begin);
    const std::size_t dash = item.find('-');
    const auto first = number(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(item.substr(dash + 1));
    if (!first || !last || *first > *last || *last >= limit) refuse(name, value, allowed);
    for (std::int64_t core = *first; core <= *last; ++core) {
      if (!cores.insert(core).second) refuse(name, value, allowed);
    }
    begin = end + 1;
  }
  return static_cast<int>(cores.size());
}

int core_count_from_environment(int lnc) {
  const int limit = kMaxChips * kPhysicalCoresPerChip / lnc;
  if (const auto value = variable("NEURON_RT_VISIBLE_CORES")) return visible_cores("NEURON_RT_VISIBLE_CORES", *value, limit);
  const auto value = variable("NEURON_RT_NUM_CORES");
  if (!value) return kPhysicalCoresPerChip / lnc;
  const auto count = number(*value);
  if (!count || *count < 1 || *count > limit) refuse("NEURON_RT_NUM_CORES", *value, "a number from 1 to " + std::to_string(limit));
  return static_cast<int>(*count);
}

std::int64_t capacity_from_environment(int lnc) {
  constexpr const char* kName = "TORCH_NEURONX_DEVICE_MEMORY";
  const auto value = variable(kName);
  if (!value) return kBytesPerPhysicalCore * lnc;
  struct Unit {
    std::string_view suffix;
    std::int64_t bytes;
  };
  static constexpr Unit kUnits[] = {{"KiB", 1LL << 10}, {"MiB", 1LL << 20}, {"GiB", 1LL << 30}, {"", 1}};
  for (const Unit& unit : kUnits) {
    if (!value->ends_with(unit.suffix)) continue;
    const auto count = number(std::string_view(*value).substr(0, value->size() - unit.suffix.size()));
    if (count && *count <= kMaxCapacity / unit.bytes && *count * unit.bytes >= kMinCapacity) return *count * unit.bytes;
    break;
  }
  refuse(kName, *value, "bytes, or a whole number with KiB, MiB or GiB, from 2MiB to 1024GiB, like '24GiB'");
}

}  // namespace

Config Config::from_environment() {
  Config config;
  config.lnc = choice("NEURON_LOGICAL_NC_CONFIG", "2", {"1", "2"}) == "1" ? 1 : 2;
  config.platform = choice("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2", {"trn2", "trn3"});
  config.core_count = core_count_from_environment(config.lnc);
  config.capacity = capacity_from_environment(config.lnc);
  config.launch_blocking = flag("NEURON_LAUNCH_BLOCKING");
  config.protect_memory = flag("TORCH_NEURONX_PROTECT_MEMORY");
  return config;
}

}  // namespace neuron
