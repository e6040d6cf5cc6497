// What the virtual NeuronCores of this process are: read once from the environment, before the first core exists.
#pragma once

#include <cstdint>
#include <string>

namespace neuron {

struct Config {
  int core_count = 4;                  // logical cores visible to the process
  int lnc = 2;                         // NEURON_LOGICAL_NC_CONFIG
  std::string platform = "trn2";       // NEURON_PLATFORM_TARGET_OVERRIDE: trn2 | trn3
  std::int64_t capacity = 24LL << 30;  // bytes of device memory of one core (TORCH_NEURONX_DEVICE_MEMORY overrides)
  bool launch_blocking = false;        // NEURON_LAUNCH_BLOCKING
  bool protect_memory = false;         // TORCH_NEURONX_PROTECT_MEMORY: device memory readable only inside commands

  // Parses the environment: NEURON_RT_VISIBLE_CORES wins over NEURON_RT_NUM_CORES. Throws InvalidArgument on a bad value.
  static Config from_environment();
};

}  // namespace neuron
