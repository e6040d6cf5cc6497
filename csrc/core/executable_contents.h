// What an executable is made of, and the parts that read and run it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/code_region.h"
#include "core/executable.h"

namespace neuron {

// The tensor list of a library step with room for the data pointers of one run. One is kept for the next run.
class TensorLists {
 public:
  TensorLists() = default;
  ~TensorLists() { delete spare_.load(std::memory_order_relaxed); }
  TensorLists(const TensorLists&) = delete;
  TensorLists& operator=(const TensorLists&) = delete;

  using List = std::vector<LibraryTensor>;
  std::unique_ptr<List> take(const List& tensors) {
    std::unique_ptr<List> list(spare_.exchange(nullptr, std::memory_order_acq_rel));
    return list != nullptr ? std::move(list) : std::make_unique<List>(tensors);
  }
  void give_back(std::unique_ptr<List> list) { delete spare_.exchange(list.release(), std::memory_order_acq_rel); }

 private:
  std::atomic<List*> spare_ = nullptr;
};

struct Executable::Contents {
  explicit Contents(std::span<const std::byte> machine_code) : code(machine_code) {}

  std::string name, signature;
  std::vector<std::uint64_t> input_bytes, output_bytes;
  std::vector<std::int32_t> donations;
  std::uint32_t scalar_count = 0;
  std::uint64_t scratch_bytes = 0;
  std::uint64_t work = 0;
  bool parallel = false;
  CodeRegion code;
  std::unique_ptr<std::byte, decltype(&std::free)> constants{nullptr, std::free};
  std::uint64_t constant_bytes = 0;
  std::vector<std::string> messages;
  std::vector<std::variant<KernelStep, LibraryStep>> steps;
  std::vector<std::unique_ptr<TensorLists>> tensor_lists;  // one per step; null for kernels
};

}  // namespace neuron
