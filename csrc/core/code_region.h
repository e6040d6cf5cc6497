// Machine code, mapped readable and executable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace neuron {

class CodeRegion {
 public:
  // Copies the code to pages of its own. Throws InvalidArgument if the host refuses executable memory.
  explicit CodeRegion(std::span<const std::byte> code);
  ~CodeRegion();
  CodeRegion(const CodeRegion&) = delete;
  CodeRegion& operator=(const CodeRegion&) = delete;

  const std::byte* at(std::uint64_t offset) const { return static_cast<const std::byte*>(pages_) + offset; }

 private:
  void* pages_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace neuron
