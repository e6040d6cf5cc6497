// Programs by key, read without locks by any number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "torch/eager/program.h"

namespace neuron::torch_face {

// How one slot of the program is filled from a call.
struct SlotPlan {
  ScalarSource::Kind kind;
  std::uint32_t position;
  enum Conversion : std::uint8_t { kBits, kIntToDouble, kDoubleToInt } conversion;
};

struct OutputPlan {
  std::int64_t position;  // of the tensor that is written, or -1: a new one of:
  std::vector<std::int64_t> sizes, strides;
  bool contiguous;
  caffe2::TypeMeta dtype;
  std::size_t bytes;
  bool resizes = false;  // the tensor at the position is empty and is first given these sizes
};

// An EagerProgram resolved for the calls of one key: places have become positions.
struct LaunchPlan {
  std::shared_ptr<const Executable> executable;
  std::vector<std::uint32_t> inputs;
  std::vector<SlotPlan> slots;
  std::vector<OutputPlan> outputs;
  std::vector<ReturnSpec> returns;
  std::uint64_t rng_draws;
};

struct CacheEntry {
  std::vector<std::uint64_t> key;
  std::uint64_t hash;
  std::unique_ptr<const LaunchPlan> plan;  // null: no lowering serves these calls, they fall back
};

// While one is alive in a thread, no entry that the thread finds is destroyed. They nest.
class ReadSection {
 public:
  ReadSection();
  ~ReadSection();
  ReadSection(const ReadSection&) = delete;
  ReadSection& operator=(const ReadSection&) = delete;
};

// The cache of one op.
class ProgramCache {
 public:
  ProgramCache();
  ~ProgramCache();

  // Null if there is none. The caller is in a ReadSection for as long as it uses the entry.
  const CacheEntry* find(std::span<const std::uint64_t> key, std::uint64_t hash) const;
  // The first entry of a key wins.
  void insert(std::unique_ptr<const CacheEntry> entry);
  // Forgets everything; waits until no other thread uses an entry. Must not be called with the GIL held.
  void clear();
  std::size_t program_count() const;

 private:
  struct Table;
  std::atomic<const Table*> table_;
  mutable std::mutex mutex_;                          // of writers
  std::vector<std::unique_ptr<const Table>> tables_;  // the current one is the last; older ones may still be read
  std::vector<std::unique_ptr<const CacheEntry>> entries_;
};

}  // namespace neuron::torch_face
