// The text of an OutOfMemory error.
#include <algorithm>
#include <cstdio>
#include <string>

#include "core/allocator_state.h"

namespace neuron {
namespace {

std::string readable(std::size_t bytes) {
  struct Unit {
    const char* name;
    double bytes;
  };
  static constexpr Unit kUnits[] = {{"GiB", 1073741824.0}, {"MiB", 1048576.0}, {"KiB", 1024.0}};
  char text[48];
  for (const Unit& unit : kUnits) {
    if (static_cast<double>(bytes) < unit.bytes) continue;
    std::snprintf(text, sizeof text, "%.2f %s", static_cast<double>(bytes) / unit.bytes, unit.name);
    return text;
  }
  std::snprintf(text, sizeof text, "%zu bytes", bytes);
  return text;
}

}  // namespace

std::string Allocator::State::out_of_memory_text(std::size_t requested) const {
  const std::size_t capacity = arena.capacity();
  const auto reserved = static_cast<std::size_t>(stats.reserved_bytes[kAggregate].current);
  const auto allocated = static_cast<std::size_t>(stats.allocated_bytes[kAggregate].current);
  const std::size_t room = limit() > reserved ? limit() - reserved : 0;
  std::size_t idle = 0, largest = 0;  // reserved but not allocated
  for (const auto& [address, segment] : segments) {
    for (const Block* block = segment.first; block != nullptr; block = block->next) {
      if (block->allocated) continue;
      idle += block->size;
      largest = std::max(largest, block->size);
    }
  }
  std::string text = "neuron:" + std::to_string(device) + " is out of memory: tried to allocate " + readable(requested) + ". Capacity " +
                     readable(capacity) + ", free " + readable(capacity - reserved) + "; " + readable(allocated) +
                     " is allocated to tensors, " + readable(idle) + " is reserved but unallocated (largest free block " +
                     readable(largest) + ").";
  char fraction[32];
  std::snprintf(fraction, sizeof fraction, "%g", memory_fraction);
  if (memory_fraction < 1.0) text += " The process may use " + readable(limit()) + " (memory fraction " + fraction + ").";
  text += " The cache was freed and the request tried again.";
  if (requested <= capacity - reserved && requested > room) {
    return text + " Raise torch.neuron.set_per_process_memory_fraction (now " + fraction + ").";
  }
  if (requested <= room) {
    return text +
           " The host refused to commit the memory: it has too little, or its limits (ulimit -v, overcommit) are too low for "
           "TORCH_NEURONX_DEVICE_MEMORY (now " +
           readable(capacity) + ").";
  }
  if (idle >= requested) {
    text += " The reserved memory is fragmented: allocate the largest tensors first, or free tensors and call torch.neuron.empty_cache().";
  }
  return text + " Free tensors, use a smaller batch, or raise TORCH_NEURONX_DEVICE_MEMORY (now " + readable(capacity) + ").";
}

}  // namespace neuron
