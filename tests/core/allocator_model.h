// A naive model of the caching allocator: lists of blocks, searched from end to end, and statistics counted anew after every step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "check.h"
#include "core/allocator.h"
#include "core/stream_clock.h"

// Streams whose queues are two numbers. Waiting completes them.
class FakeClock final : public neuron::StreamClock {
 public:
  std::uint64_t submitted(neuron::StreamId stream) const override { return queued[stream]; }
  std::uint64_t completed(neuron::StreamId stream) const override { return done[stream]; }
  void wait(neuron::StreamId stream, std::uint64_t position) override { done[stream] = std::max(done[stream], position); }

  std::uint64_t queued[8] = {}, done[8] = {};
};

class AllocatorModel {
 public:
  AllocatorModel(std::size_t capacity, FakeClock& clock) : capacity_(capacity), clock_(clock) {}

  // What the real allocator returned (null: out of memory) must be what the rules allow.
  void allocate(std::size_t bytes, neuron::StreamId stream, std::uintptr_t result);
  void free(std::uintptr_t address);
  void record_stream(std::uintptr_t address, neuron::StreamId stream);
  void empty_cache();
  void compare(const neuron::AllocatorStats& real, const std::vector<neuron::SegmentSnapshot>& snapshot) const;
  static std::size_t rounded(std::size_t bytes);

  neuron::AllocatorStats stats;

 private:
  enum class Use { kFree, kAllocated, kDeferred };
  struct Block {
    std::uintptr_t address;
    std::size_t size, requested;
    Use use;
    std::vector<neuron::StreamId> users;
  };
  struct Segment {
    std::uintptr_t address;
    std::size_t size;
    neuron::StreamId stream;
    bool small;
    std::vector<Block> blocks;
  };
  struct Deferred {
    std::uintptr_t address;
    std::vector<std::pair<neuron::StreamId, std::uint64_t>> uses;
  };

  bool use_free(std::size_t size, std::size_t bytes, neuron::StreamId stream, std::uintptr_t result);
  bool use_new(std::size_t size, std::size_t bytes, neuron::StreamId stream, std::uintptr_t result, bool tight);
  void hand_out(Segment& segment, std::size_t index, std::size_t size, std::size_t bytes);
  void put_back(std::uintptr_t address);
  void sweep();
  void finish_deferred();
  void release_cached();
  std::pair<Segment*, std::size_t> find(std::uintptr_t address);
  std::size_t reserved() const;
  void count();  // after every step

  std::size_t capacity_;
  FakeClock& clock_;
  std::vector<Segment> segments_;
  std::vector<Deferred> deferred_;
};

inline std::size_t AllocatorModel::rounded(std::size_t bytes) {
  constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;
  if (bytes >= 16 * kMiB || bytes <= 16 * kKiB) return (bytes + 255) / 256 * 256;
  std::size_t power = 16 * kKiB;
  while (2 * power < bytes) power *= 2;
  for (std::size_t parts = 64;; ++parts) {
    if (power / 64 * parts >= bytes) return power / 64 * parts;
  }
}

inline std::size_t AllocatorModel::reserved() const {
  std::size_t sum = 0;
  for (const Segment& segment : segments_) sum += segment.size;
  return sum;
}

inline std::pair<AllocatorModel::Segment*, std::size_t> AllocatorModel::find(std::uintptr_t address) {
  for (Segment& segment : segments_) {
    for (std::size_t i = 0; i < segment.blocks.size(); ++i) {
      if (segment.blocks[i].address == address) return {&segment, i};
    }
  }
  throw std::logic_error("the model has no such block");
}

inline bool AllocatorModel::use_free(std::size_t size, std::size_t bytes, neuron::StreamId stream, std::uintptr_t result) {
  std::size_t best = SIZE_MAX;
  for (const Segment& segment : segments_) {
    if (segment.stream != stream || segment.small != (size <= 1 << 20)) continue;
    for (const Block& block : segment.blocks) {
      if (block.use == Use::kFree && block.size >= size) best = std::min(best, block.size);
    }
  }
  if (best == SIZE_MAX) return false;
  const auto [segment, index] = find(result);
  CHECK_EQUAL(segment->stream, stream);
  CHECK_EQUAL(segment->small, size <= 1 << 20);
  CHECK(segment->blocks[index].use == Use::kFree);
  CHECK_EQUAL(segment->blocks[index].size, best);
  hand_out(*segment, index, size, bytes);
  return true;
}

inline bool AllocatorModel::use_new(std::size_t size, std::size_t bytes, neuron::StreamId stream, std::uintptr_t result, bool tight) {
  const bool small = size <= 1 << 20;
  std::size_t segment_size = (size + (2 << 20) - 1) / (2 << 20) * (2 << 20);
  if (!small && !tight && size < 10 << 20) segment_size = 20 << 20;
  if (reserved() + segment_size > capacity_) return false;
  CHECK(result != 0);
  for (const Segment& segment : segments_) {
    CHECK(result + segment_size <= segment.address || segment.address + segment.size <= result);
  }
  segments_.push_back({result, segment_size, stream, small, {{result, segment_size, 0, Use::kFree, {}}}});
  ++stats.num_device_alloc;
  count();
  hand_out(segments_.back(), 0, size, bytes);
  return true;
}

inline void AllocatorModel::hand_out(Segment& segment, std::size_t index, std::size_t size, std::size_t bytes) {
  const std::size_t rest = segment.blocks[index].size - size;
  const bool split = segment.small ? rest > 0 : rest > 1 << 20;
  if (split) {
    segment.blocks[index].size = size;
    segment.blocks.insert(segment.blocks.begin() + index + 1, {segment.blocks[index].address + size, rest, 0, Use::kFree, {}});
  }
  segment.blocks[index].use = Use::kAllocated;
  segment.blocks[index].requested = bytes;
  count();
}

inline void AllocatorModel::allocate(std::size_t bytes, neuron::StreamId stream, std::uintptr_t result) {
  sweep();
  const std::size_t size = rounded(bytes);
  if (use_free(size, bytes, stream, result) || use_new(size, bytes, stream, result, false)) return;
  ++stats.num_alloc_retries;
  finish_deferred();
  if (use_free(size, bytes, stream, result)) return;
  release_cached();
  if (use_new(size, bytes, stream, result, false) || use_new(size, bytes, stream, result, true)) return;
  CHECK(result == 0);
  ++stats.num_ooms;
}

inline void AllocatorModel::free(std::uintptr_t address) {
  const auto [segment, index] = find(address);
  Block& block = segment->blocks[index];
  Deferred entry{address, {}};
  for (const neuron::StreamId user : block.users) {
    if (clock_.done[user] < clock_.queued[user]) entry.uses.emplace_back(user, clock_.queued[user]);
  }
  block.users.clear();
  block.use = Use::kDeferred;
  count();
  if (entry.uses.empty()) {
    put_back(address);
  } else {
    deferred_.push_back(entry);
  }
}

inline void AllocatorModel::record_stream(std::uintptr_t address, neuron::StreamId stream) {
  const auto [segment, index] = find(address);
  if (stream != segment->stream) segment->blocks[index].users.push_back(stream);
}

inline void AllocatorModel::put_back(std::uintptr_t address) {
  const auto [segment, found] = find(address);
  std::size_t index = found;
  std::vector<Block>& blocks = segment->blocks;
  blocks[index].use = Use::kFree;
  blocks[index].requested = 0;
  if (index + 1 < blocks.size() && blocks[index + 1].use == Use::kFree) {
    blocks[index].size += blocks[index + 1].size;
    blocks.erase(blocks.begin() + index + 1);
  }
  if (index > 0 && blocks[index - 1].use == Use::kFree) {
    blocks[index - 1].size += blocks[index].size;
    blocks.erase(blocks.begin() + index);
  }
  count();
}

inline void AllocatorModel::sweep() {
  const auto waiting = deferred_;
  deferred_.clear();
  for (const Deferred& entry : waiting) {
    const bool done = std::ranges::all_of(entry.uses, [this](const auto& use) { return clock_.done[use.first] >= use.second; });
    if (done) {
      put_back(entry.address);
    } else {
      deferred_.push_back(entry);
    }
  }
}

inline void AllocatorModel::finish_deferred() {
  if (deferred_.empty()) return;
  ++stats.num_sync_all_streams;
  for (const Deferred& entry : deferred_) {
    for (const auto& [stream, position] : entry.uses) clock_.wait(stream, position);
  }
  sweep();
}

inline void AllocatorModel::release_cached() {
  for (std::size_t i = 0; i < segments_.size();) {
    if (segments_[i].blocks.size() == 1 && segments_[i].blocks[0].use == Use::kFree) {
      clock_.done[segments_[i].stream] = clock_.queued[segments_[i].stream];
      segments_.erase(segments_.begin() + i);
      ++stats.num_device_free;
      count();
    } else {
      ++i;
    }
  }
}

inline void AllocatorModel::empty_cache() {
  finish_deferred();
  release_cached();
}

inline void set_stat(neuron::Stat& stat, std::int64_t value) {
  (value > stat.current ? stat.allocated : stat.freed) += std::abs(value - stat.current);
  stat.current = value;
  stat.peak = std::max(stat.peak, value);
}

inline void AllocatorModel::count() {
  struct Totals {
    std::int64_t allocation = 0, segment = 0, active = 0, split = 0;
    std::int64_t allocated_bytes = 0, reserved_bytes = 0, active_bytes = 0, split_bytes = 0, requested_bytes = 0;
  };
  Totals totals[3];
  for (const Segment& segment : segments_) {
    for (Totals* total : {&totals[0], &totals[segment.small ? 1 : 2]}) {
      total->segment += 1;
      total->reserved_bytes += segment.size;
      for (const Block& block : segment.blocks) {
        const bool split = block.use == Use::kFree && segment.blocks.size() > 1;
        total->allocation += block.use == Use::kAllocated;
        total->allocated_bytes += block.use == Use::kAllocated ? block.size : 0;
        total->active += block.use != Use::kFree;
        total->active_bytes += block.use != Use::kFree ? block.size : 0;
        total->split += split;
        total->split_bytes += split ? block.size : 0;
        total->requested_bytes += block.requested;
      }
    }
  }
  for (std::size_t type = 0; type < 3; ++type) {
    set_stat(stats.allocation[type], totals[type].allocation);
    set_stat(stats.segment[type], totals[type].segment);
    set_stat(stats.active[type], totals[type].active);
    set_stat(stats.inactive_split[type], totals[type].split);
    set_stat(stats.allocated_bytes[type], totals[type].allocated_bytes);
    set_stat(stats.reserved_bytes[type], totals[type].reserved_bytes);
    set_stat(stats.active_bytes[type], totals[type].active_bytes);
    set_stat(stats.inactive_split_bytes[type], totals[type].split_bytes);
    set_stat(stats.requested_bytes[type], totals[type].requested_bytes);
  }
}

inline void AllocatorModel::compare(const neuron::AllocatorStats& real, const std::vector<neuron::SegmentSnapshot>& snapshot) const {
  const auto same = [](const char* name, const neuron::StatArray& a, const neuron::StatArray& b) {
    for (std::size_t type = 0; type < 3; ++type) {
      const std::string where = std::string(name) + " " + std::to_string(type);
      check::equal(a[type].current, b[type].current, (where + " current").c_str(), __FILE__, __LINE__);
      check::equal(a[type].peak, b[type].peak, (where + " peak").c_str(), __FILE__, __LINE__);
      check::equal(a[type].allocated, b[type].allocated, (where + " allocated").c_str(), __FILE__, __LINE__);
      check::equal(a[type].freed, b[type].freed, (where + " freed").c_str(), __FILE__, __LINE__);
    }
  };
  same("allocation", real.allocation, stats.allocation);
  same("segment", real.segment, stats.segment);
  same("active", real.active, stats.active);
  same("inactive_split", real.inactive_split, stats.inactive_split);
  same("allocated_bytes", real.allocated_bytes, stats.allocated_bytes);
  same("reserved_bytes", real.reserved_bytes, stats.reserved_bytes);
  same("active_bytes", real.active_bytes, stats.active_bytes);
  same("inactive_split_bytes", real.inactive_split_bytes, stats.inactive_split_bytes);
  same("requested_bytes", real.requested_bytes, stats.requested_bytes);
  CHECK_EQUAL(real.num_alloc_retries, stats.num_alloc_retries);
  CHECK_EQUAL(real.num_ooms, stats.num_ooms);
  CHECK_EQUAL(real.num_sync_all_streams, stats.num_sync_all_streams);
  CHECK_EQUAL(real.num_device_alloc, stats.num_device_alloc);
  CHECK_EQUAL(real.num_device_free, stats.num_device_free);
  CHECK_EQUAL(snapshot.size(), segments_.size());
  for (const neuron::SegmentSnapshot& segment : snapshot) {
    const auto mine = std::ranges::find(segments_, segment.address, &Segment::address);
    CHECK(mine != segments_.end() && mine->size == segment.size && mine->stream == segment.stream && mine->small == segment.small_pool);
    CHECK_EQUAL(mine->blocks.size(), segment.blocks.size());
    for (std::size_t i = 0; i < segment.blocks.size(); ++i) {
      CHECK_EQUAL(mine->blocks[i].address, segment.blocks[i].address);
      CHECK_EQUAL(mine->blocks[i].size, segment.blocks[i].size);
      CHECK_EQUAL(mine->blocks[i].use == Use::kAllocated, segment.blocks[i].allocated);
      CHECK_EQUAL(mine->blocks[i].use != Use::kFree, segment.blocks[i].active);
    }
  }
}
