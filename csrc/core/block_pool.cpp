#include "core/block_pool.h"

namespace neuron {

void SmallBins::insert(Block* block) {
  const std::size_t bin = block->size / kBlockUnit;
  block->bin_previous = nullptr;
  block->bin_next = heads_[bin];
  if (heads_[bin] != nullptr) heads_[bin]->bin_previous = block;
  heads_[bin] = block;
  words_[bin / 64] |= std::uint64_t{1} << (bin % 64);
  summary_[bin / 4096] |= std::uint64_t{1} << (bin / 64 % 64);
}

void SmallBins::remove(Block* block) {
  const std::size_t bin = block->size / kBlockUnit;
  if (block->bin_next != nullptr) block->bin_next->bin_previous = block->bin_previous;
  if (block->bin_previous != nullptr) {
    block->bin_previous->bin_next = block->bin_next;
    return;
  }
  heads_[bin] = block->bin_next;
  if (heads_[bin] != nullptr) return;
  words_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  if (words_[bin / 64] == 0) summary_[bin / 4096] &= ~(std::uint64_t{1} << (bin / 64 % 64));
}

Block* SmallBins::best_fit(std::size_t size) const {
  const std::size_t bin = size / kBlockUnit;
  std::size_t word = bin / 64;
  if (const std::uint64_t here = words_[word] >> (bin % 64); here != 0) return heads_[bin + std::countr_zero(here)];
  ++word;
  for (std::size_t group = word / 64; group < kSummaryWords; ++group) {
    const std::uint64_t later = group == word / 64 ? summary_[group] & (~std::uint64_t{0} << (word % 64)) : summary_[group];
    if (later == 0) continue;
    word = group * 64 + std::countr_zero(later);
    return heads_[word * 64 + std::countr_zero(words_[word])];
  }
  return nullptr;
}

Block* LargeTree::best_fit(std::size_t size) const {
  const auto found = blocks_.lower_bound(Key{size});
  return found == blocks_.end() ? nullptr : *found;
}

}  // namespace neuron
