#include "core/philox.h"

#include <algorithm>
#include <stdexcept>

#include "core/library.h"
#include "core/parallel.h"

namespace neuron {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kKeyStep0 = 0x9E3779B9, kKeyStep1 = 0xBB67AE85;
constexpr int kRounds = 10;
constexpr std::int64_t kGrain = 16384;  // blocks per task: about 50 microseconds

struct Words {
  std::uint32_t w0, w1, w2, w3;
};

[[gnu::always_inline]] inline Words block(Words x, std::uint32_t key0, std::uint32_t key1) {
#pragma GCC unroll 10
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * x.w0, product1 = std::uint64_t{kMultiplier1} * x.w2;
    x = {static_cast<std::uint32_t>(product1 >> 32) ^ x.w1 ^ key0, static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ x.w3 ^ key1, static_cast<std::uint32_t>(product0)};
    key0 += kKeyStep0;
    key1 += kKeyStep1;
  }
  return x;
}

// The blocks [begin, end) of a fill; row w of the output begins at out + w * rows. `rest` words of the last row do not exist.
struct Fill {
  std::uint64_t seed, offset;
  std::uint32_t* out;
  std::int64_t count, blocks;
};

// Blocks are written in tiles, one row after the other, so that the loop over a tile is straight-line vector code.
constexpr std::int64_t kTile = 64;

[[gnu::always_inline]] inline void fill_range(const Fill& fill, std::int64_t begin, std::int64_t end) {
  const auto key0 = static_cast<std::uint32_t>(fill.seed), key1 = static_cast<std::uint32_t>(fill.seed >> 32);
  alignas(64) std::uint32_t tile[4][kTile];
  for (std::int64_t first = begin; first < end; first += kTile) {
    const std::uint64_t counter = fill.offset + static_cast<std::uint64_t>(first);
    for (std::int64_t i = 0; i < kTile; ++i) {
      const std::uint64_t c = counter + static_cast<std::uint64_t>(i);
      const Words words = block({static_cast<std::uint32_t>(c), static_cast<std::uint32_t>(c >> 32), 0, 0}, key0, key1);
      tile[0][i] = words.w0;
      tile[1][i] = words.w1;
      tile[2][i] = words.w2;
      tile[3][i] = words.w3;
    }
    for (int word = 0; word < 4; ++word) {
      const std::int64_t row = word * fill.blocks;
      const std::int64_t length = std::min({kTile, end - first, fill.count - row - first});
      if (length > 0) std::copy_n(tile[word], length, fill.out + row + first);
    }
  }
}

using FillRange = void (*)(const Fill&, std::int64_t, std::int64_t);

[[gnu::target("avx512f")]] void fill_range_avx512(const Fill& fill, std::int64_t begin, std::int64_t end) { fill_range(fill, begin, end); }
[[gnu::target("avx2")]] void fill_range_avx2(const Fill& fill, std::int64_t begin, std::int64_t end) { fill_range(fill, begin, end); }
void fill_range_plain(const Fill& fill, std::int64_t begin, std::int64_t end) { fill_range(fill, begin, end); }

FillRange best_fill_range() {
  if (__builtin_cpu_supports("avx512f")) return fill_range_avx512;
  if (__builtin_cpu_supports("avx2")) return fill_range_avx2;
  return fill_range_plain;
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
  const Words words = block({counter[0], counter[1], counter[2], counter[3]}, key[0], key[1]);
  return {words.w0, words.w1, words.w2, words.w3};
}

void philox_fill(std::uint64_t seed, std::uint64_t offset, std::uint32_t* out, std::int64_t count) {
  static const FillRange fill_range = best_fill_range();
  Fill fill{seed, offset, out, count, (count + 3) / 4};
  if (fill.blocks <= kGrain) return fill_range(fill, 0, fill.blocks);
  const auto part = [](void* context, std::int64_t begin, std::int64_t end) { fill_range(*static_cast<const Fill*>(context), begin, end); };
  parallel_for()(fill.blocks, kGrain, part, &fill);
}

}  // namespace neuron
