#include "torch/eager/overlap.h"

#include <ATen/MemoryOverlap.h>

#include <bit>
#include <limits>

namespace neuron::torch_face {
namespace {

constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

// Marks a key word that says: this position is identical to that earlier one. No argument's part of a key starts with it.
constexpr std::uint64_t kIdenticalTag = 0xFF;

// Positions by storage: a table of the latest position of each storage, and for each position the one before it in the same storage.
struct StorageChains {
  Scratch<std::uint32_t> latest, previous;
  std::size_t mask = 0;

  void reset(std::size_t positions) {
    mask = std::bit_ceil(positions * 2 + 1) - 1;
    latest.clear();
    previous.clear();
    std::fill_n(latest.extend(mask + 1), mask + 1, kNobody);
    std::fill_n(previous.extend(positions), positions, kNobody);
  }
};

const void* storage_of(const Position& position) { return position.tensor->unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(); }

bool identical(const Position& a, const Position& b) {
  return a.data == b.data && a.tensor->scalar_type() == b.tensor->scalar_type() && a.tensor->sizes() == b.tensor->sizes() &&
         a.tensor->strides() == b.tensor->strides();
}

// Appends `index` to the chain of its storage.
void link(Call& call, StorageChains& chains, std::uint32_t index) {
  const void* storage = storage_of(call.positions[index]);
  std::size_t slot = (reinterpret_cast<std::uintptr_t>(storage) >> 4) * 0x9E3779B97F4A7C15ULL >> 32 & chains.mask;
  while (chains.latest[slot] != kNobody && storage_of(call.positions[chains.latest[slot]]) != storage) slot = (slot + 1) & chains.mask;
  chains.previous[index] = chains.latest[slot];
  chains.latest[slot] = index;
}

void compare_with_earlier(Call& call, const StorageChains& chains, std::uint32_t index) {
  const Position& position = call.positions[index];
  std::uint32_t same = kNobody;
  for (std::uint32_t other = chains.previous[index]; other != kNobody; other = chains.previous[other]) {
    const Position& earlier = call.positions[other];
    if (identical(position, earlier)) {
      same = other;
    } else if (position.written || earlier.written) {
      at::assert_no_partial_overlap(*position.tensor, *earlier.tensor);
    }
  }
  if (same != kNobody) call.key.push(kIdenticalTag | std::uint64_t{index} << 8 | std::uint64_t{same} << 32);
}

}  // namespace

void read_overlaps(Call& call) {
  thread_local StorageChains chains;
  chains.reset(call.positions.size());
  for (std::uint32_t index = 0; index < call.positions.size(); ++index) {
    const Position& position = call.positions[index];
    if (position.data == nullptr) continue;  // undefined, a scalar, or without elements
    if (position.written) at::assert_no_internal_overlap(*position.tensor);
    link(call, chains, index);
    compare_with_earlier(call, chains, index);
  }
}

}  // namespace neuron::torch_face
