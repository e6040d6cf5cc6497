#include <cstdlib>
#include <map>
#include <string>

#include "check.h"
#include "core/config.h"
#include "core/core.h"
#include "core/error.h"

using neuron::Config;
using neuron::InvalidArgument;

namespace {

// The configuration with these variables set and all others unset.
Config configured(const std::map<std::string, std::string>& variables) {
  for (const char* name : {"NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES", "NEURON_LOGICAL_NC_CONFIG", "NEURON_PLATFORM_TARGET_OVERRIDE",
                           "NEURON_LAUNCH_BLOCKING", "TORCH_NEURONX_DEVICE_MEMORY", "TORCH_NEURONX_PROTECT_MEMORY"}) {
    unsetenv(name);
  }
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  return Config::from_environment();
}

}  // namespace

TEST(config_defaults_are_one_chip) {
  const Config config = configured({});
  CHECK_EQUAL(config.core_count, 4);
  CHECK_EQUAL(config.lnc, 2);
  CHECK_EQUAL(config.platform, "trn2");
  CHECK_EQUAL(config.capacity, 24LL << 30);
  CHECK(!config.launch_blocking && !config.protect_memory);
  const Config physical = configured({{"NEURON_LOGICAL_NC_CONFIG", "1"}});
  CHECK_EQUAL(physical.core_count, 8);
  CHECK_EQUAL(physical.capacity, 12LL << 30);
}

TEST(config_visible_cores_win_over_num_cores) {
  const std::pair<const char*, int> expected[] = {{"0", 1}, {"0-3", 4}, {"1,3", 2}, {"0-1,3,5-6", 5}, {"7", 1}, {"0-63", 64}};
  for (const auto& [value, count] : expected) {
    CHECK_EQUAL(configured({{"NEURON_RT_VISIBLE_CORES", value}, {"NEURON_RT_NUM_CORES", "2"}}).core_count, count);
  }
  CHECK_EQUAL(configured({{"NEURON_RT_NUM_CORES", "2"}}).core_count, 2);
  CHECK_EQUAL(configured({{"NEURON_RT_NUM_CORES", "128"}, {"NEURON_LOGICAL_NC_CONFIG", "1"}}).core_count, 128);
}

TEST(config_reads_sizes_and_flags) {
  CHECK_EQUAL(configured({{"TORCH_NEURONX_DEVICE_MEMORY", "512MiB"}}).capacity, 512LL << 20);
  CHECK_EQUAL(configured({{"TORCH_NEURONX_DEVICE_MEMORY", "24GiB"}}).capacity, 24LL << 30);
  CHECK_EQUAL(configured({{"TORCH_NEURONX_DEVICE_MEMORY", "4096KiB"}}).capacity, 4LL << 20);
  CHECK_EQUAL(configured({{"TORCH_NEURONX_DEVICE_MEMORY", "3000000"}}).capacity, 3000000);
  CHECK_EQUAL(configured({{"NEURON_PLATFORM_TARGET_OVERRIDE", "trn3"}}).platform, "trn3");
  CHECK(configured({{"NEURON_LAUNCH_BLOCKING", "1"}}).launch_blocking);
  CHECK(configured({{"TORCH_NEURONX_PROTECT_MEMORY", "1"}}).protect_memory);
  CHECK(!configured({{"TORCH_NEURONX_PROTECT_MEMORY", "0"}}).protect_memory);
}

TEST(config_bad_values_name_variable_value_and_what_is_allowed) {
  const std::pair<const char*, std::vector<const char*>> bad[] = {
      {"NEURON_RT_VISIBLE_CORES", {"a", "0-", "-1", "3-1", "0,,1", "0,", "1,1", "0-2,1", "64", "0-64", " 0", "99999999999999999999"}},
      {"NEURON_RT_NUM_CORES", {"0", "-1", "65", "two", "2.0"}},
      {"NEURON_LOGICAL_NC_CONFIG", {"0", "3", "x"}},
      {"NEURON_PLATFORM_TARGET_OVERRIDE", {"trn1", "TRN2"}},
      {"NEURON_LAUNCH_BLOCKING", {"yes", "2"}},
      {"TORCH_NEURONX_PROTECT_MEMORY", {"true"}},
      {"TORCH_NEURONX_DEVICE_MEMORY", {"0", "1MiB", "24GB", "GiB", "-1GiB", "1.5GiB", "2000GiB", "24 GiB", "9999999999999999999999"}},
  };
  for (const auto& [name, values] : bad) {
    for (const char* value : values) {
      const std::string text = THROWN(InvalidArgument, configured({{name, value}}));
      CHECK_CONTAINS(text, std::string(name) + "='" + value + "' is not valid; allowed: ");
    }
  }
  CHECK_CONTAINS(THROWN(InvalidArgument, configured({{"NEURON_RT_NUM_CORES", "65"}})), "a number from 1 to 64");
  CHECK_CONTAINS(THROWN(InvalidArgument, configured({{"NEURON_LOGICAL_NC_CONFIG", "3"}})), "allowed: 1, 2");
}

TEST(config_of_the_process_is_reported_at_first_use) {
  configured({});
  setenv("NEURON_RT_NUM_CORES", "none", 1);
  CHECK_EQUAL(neuron::core_count(), 0);
  CHECK_CONTAINS(THROWN(InvalidArgument, neuron::core(0)), "NEURON_RT_NUM_CORES='none'");
  setenv("NEURON_RT_NUM_CORES", "2", 1);
  CHECK_EQUAL(neuron::core_count(), 2);
  CHECK_CONTAINS(THROWN(InvalidArgument, neuron::core(2)), "device index 2 is out of range; allowed: 0 to 1");
  THROWN(InvalidArgument, neuron::core(-1));
  CHECK(!neuron::core_started(0) && !neuron::core_started(-1) && !neuron::core_started(1000));
  CHECK_EQUAL(neuron::core(1).index(), 1);
  CHECK(neuron::core_started(1) && !neuron::core_started(0));
}
