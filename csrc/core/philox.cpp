#include "core/philox.h"

#include <stdexcept>

#include "core/library.h"
#include "core/parallel.h"
#include "core/philox_lanes.h"

namespace neuron {

namespace {

constexpr std::int64_t kGrain = 16384;  // blocks per task: some 20 microseconds

void fill_plain(const PhiloxFill& fill, std::int64_t begin, std::int64_t end) {
  for (std::int64_t c = begin; c < end; ++c) philox_fill_block(fill, c);
}

PhiloxFillRange best_fill_range() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return philox_fill_avx512;
  if (__builtin_cpu_supports("avx2")) return philox_fill_avx2;
#endif
  return fill_plain;
}

// tensors: out ui32[n], contiguous. scalars: seed, offset.
void philox_kernel(const LibraryCall& call) {
  if (call.tensors.size() != 1 || call.scalars.size() != 2 || call.tensors[0].dtype != DType::kUInt32 ||
      call.tensors[0].sizes.size() != 1) {
    throw std::invalid_argument("philox takes one ui32[n] tensor and the scalars seed and offset");
  }
  philox_fill(call.scalars[0], call.scalars[1], static_cast<std::uint32_t*>(call.tensors[0].data), call.tensors[0].sizes[0]);
}

const LibraryRegistration registration("philox", philox_kernel);

}  // namespace

std::array<std::uint32_t, 4> philox_block(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept {
  const auto words = philox_rounds<std::uint32_t>({counter[0], counter[1], counter[2], counter[3]}, key[0], key[1]);
  return {words.w0, words.w1, words.w2, words.w3};
}

void philox_fill(std::uint64_t seed, std::uint64_t offset, std::uint32_t* out, std::int64_t count) {
  static const PhiloxFillRange fill_range = best_fill_range();
  PhiloxFill fill{seed, offset, out, count, (count + 3) / 4};
  if (fill.blocks <= kGrain) return fill_range(fill, 0, fill.blocks);
  const auto part = [](void* context, std::int64_t begin, std::int64_t end) {
    fill_range(*static_cast<const PhiloxFill*>(context), begin, end);
  };
  parallel_for()(fill.blocks, kGrain, part, &fill);
}

}  // namespace neuron
