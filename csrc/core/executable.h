// A compiled program, loaded: code mapped executable, constants in place, steps ready to run. Immutable and shared.
// The byte format is in docs/architecture.md (seam 2); compiler/executable.py writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/library.h"

namespace neuron {

using KernelFunction = std::int32_t (*)(char* const* buffers, const std::int64_t* params, const std::uint64_t* scalars, std::int64_t begin,
                                        std::int64_t end);

enum class Space : std::uint8_t { kInput, kOutput, kScratch, kConstant };

struct BufferRef {
  Space space;
  std::uint32_t index;
  std::uint64_t offset;
};

struct KernelStep {
  std::string name;
  KernelFunction function;
  std::vector<BufferRef> buffers;
  std::vector<std::int64_t> params;
  std::int64_t range;
  std::int64_t grain;
};

struct LibraryStep {
  std::string symbol;
  LibraryKernel function;
  std::vector<BufferRef> buffers;      // one per tensor
  std::vector<LibraryTensor> tensors;  // data is filled at each run
  std::vector<std::int64_t> ints;
  std::vector<double> floats;
  std::vector<std::uint32_t> scalars;
};

class Executable {
 public:
  // Throws InvalidArgument for anything malformed (truncated, bad magic, out-of-range reference, unknown library symbol).
  static std::shared_ptr<const Executable> parse(std::span<const std::byte> image);
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  const std::string& name() const;
  const std::string& signature() const;
  std::span<const std::uint64_t> input_bytes() const;
  std::span<const std::uint64_t> output_bytes() const;
  std::span<const std::int32_t> donations() const;
  std::uint32_t scalar_count() const;
  std::uint64_t scratch_bytes() const;
  std::uint64_t work() const;  // estimated single-thread nanoseconds
  bool parallel() const;       // may use more than one thread
  std::span<const std::variant<KernelStep, LibraryStep>> steps() const;

  // Runs all steps on the calling thread (kernels spread through the installed parallel_for). buffers: inputs, then outputs.
  // Throws std::runtime_error with the kernel's message when a kernel reports a failure.
  void run(std::span<void* const> buffers, void* scratch, std::span<const std::uint64_t> scalars) const;

 private:
  Executable() = default;
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

// How kernels use several threads: body(begin, end) over [0, range) with at least `grain` iterations a task. Default: serial.
using ParallelFor = void (*)(std::int64_t range, std::int64_t grain, void (*body)(void* context, std::int64_t begin, std::int64_t end),
                             void* context);
void set_parallel_for(ParallelFor parallel_for);

}  // namespace neuron
