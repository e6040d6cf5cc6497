// Library kernels: functions by symbol that a program's library steps call on device buffers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace neuron {

// Codes are DType.code of compiler/hlo/types.py.
enum class DType : std::uint8_t {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
  kFloat8E4M3FN,
  kFloat8E5M2,
  kAbsent = 255,
};

struct LibraryTensor {
  void* data;
  DType dtype;  // kAbsent: an optional tensor that was not given
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  // elements
};

struct LibraryCall {
  std::span<const LibraryTensor> tensors;  // results first, then operands
  std::span<const std::int64_t> ints;
  std::span<const double> floats;
  std::span<const std::uint64_t> scalars;  // the values of the step's slots
};

// Throws to report a failure.
using LibraryKernel = void (*)(const LibraryCall&);

// Registered by static initialisers, before any program is parsed.
void register_library_kernel(const std::string& symbol, LibraryKernel kernel);
// Null if there is none.
LibraryKernel find_library_kernel(const std::string& symbol);

struct LibraryRegistration {
  LibraryRegistration(const char* symbol, LibraryKernel kernel) { register_library_kernel(symbol, kernel); }
};

}  // namespace neuron
