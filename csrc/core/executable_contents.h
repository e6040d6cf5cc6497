// What an executable is made of, and the parts that read and run it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/code_region.h"
#include "core/executable.h"

namespace neuron {

class ImageReader;

// Copies of a library step's tensors, with room for the data pointers of one run; kept from run to run, as many as run at once.
class TensorLists {
 public:
  using List = std::vector<LibraryTensor>;

  std::unique_ptr<List> take(const List& tensors) {
    std::lock_guard lock(mutex_);
    if (spare_.empty()) return std::make_unique<List>(tensors);
    auto list = std::move(spare_.back());
    spare_.pop_back();
    return list;
  }
  void give_back(std::unique_ptr<List> list) {
    std::lock_guard lock(mutex_);
    spare_.push_back(std::move(list));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<List>> spare_;
};

struct Executable::Contents {
  // The parts of an image, in the order of its bytes. Each throws InvalidArgument for what is malformed.
  void read_header(ImageReader& reader);
  void read_memory(ImageReader& reader);  // constants, code and messages
  void read_steps(ImageReader& reader);

  std::string name, signature;
  std::vector<std::uint64_t> input_bytes, output_bytes;
  std::vector<std::int32_t> donations;
  std::uint32_t scalar_count = 0;
  std::uint64_t scratch_bytes = 0;
  std::uint64_t work = 0;
  bool parallel = false;
  std::optional<CodeRegion> code;
  std::uint64_t code_bytes = 0;
  std::unique_ptr<std::byte, decltype(&std::free)> constants{nullptr, std::free};
  std::uint64_t constant_bytes = 0;
  std::vector<std::string> messages;
  std::vector<std::variant<KernelStep, LibraryStep>> steps;
  std::vector<std::unique_ptr<TensorLists>> tensor_lists;  // one per step; null for kernels
};

}  // namespace neuron
