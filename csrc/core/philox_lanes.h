// The Philox rounds, one block at a time and several at once. Included once by each file that compiles them for one instruction set, after
// its target pragma; so everything has internal linkage, and nothing of the standard library is instantiated here.
#pragma once

#include <cstdint>

namespace neuron {

// A fill as philox.h defines it; row w of the output begins at out + w * blocks.
struct PhiloxFill {
  std::uint64_t seed, offset;
  std::uint32_t* out;
  std::int64_t count, blocks;
};

// Computes the blocks [begin, end) of a fill.
using PhiloxFillRange = void (*)(const PhiloxFill& fill, std::int64_t begin, std::int64_t end);

#if defined(__x86_64__)
void philox_fill_avx512(const PhiloxFill& fill, std::int64_t begin, std::int64_t end);
void philox_fill_avx2(const PhiloxFill& fill, std::int64_t begin, std::int64_t end);
#endif

namespace {

// Four words, each a number or a vector of numbers.
template <typename Word>
struct PhiloxWords {
  Word w0, w1, w2, w3;
};

[[gnu::always_inline]] inline void multiply(std::uint32_t word, std::uint32_t factor, std::uint32_t& high, std::uint32_t& low) {
  const std::uint64_t product = std::uint64_t{word} * factor;
  high = static_cast<std::uint32_t>(product >> 32);
  low = static_cast<std::uint32_t>(product);
}

// A Word has ^ with its like and with a number, and multiply(word, factor, high, low).
template <typename Word>
[[gnu::always_inline]] inline PhiloxWords<Word> philox_rounds(PhiloxWords<Word> x, std::uint32_t key0, std::uint32_t key1) {
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    Word high0, low0, high1, low1;
    multiply(x.w0, 0xD2511F53U, high0, low0);
    multiply(x.w2, 0xCD9E8D57U, high1, low1);
    x = {high1 ^ x.w1 ^ key0, low1, high0 ^ x.w3 ^ key1, low0};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return x;
}

[[gnu::always_inline]] inline void philox_fill_block(const PhiloxFill& fill, std::int64_t c) {
  const std::uint64_t counter = fill.offset + static_cast<std::uint64_t>(c);
  const PhiloxWords<std::uint32_t> words =
      philox_rounds<std::uint32_t>({static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0},
                                   static_cast<std::uint32_t>(fill.seed), static_cast<std::uint32_t>(fill.seed >> 32));
  const std::uint32_t row[] = {words.w0, words.w1, words.w2, words.w3};
  for (std::int64_t w = 0; w < 4 && w * fill.blocks + c < fill.count; ++w) fill.out[w * fill.blocks + c] = row[w];
}

// Vector has kLanes, broadcast(number), iota(), + and store(pointer) besides what philox_rounds needs.
template <typename Vector>
[[gnu::always_inline]] inline void philox_fill_vectors(const PhiloxFill& fill, std::int64_t begin, std::int64_t end) {
  const auto key0 = static_cast<std::uint32_t>(fill.seed), key1 = static_cast<std::uint32_t>(fill.seed >> 32);
  const std::int64_t in_last_row = fill.count - 3 * fill.blocks;
  std::int64_t c = begin;
  while (c < end) {
    const std::uint64_t counter = fill.offset + static_cast<std::uint64_t>(c);
    const auto low = static_cast<std::uint32_t>(counter), high = static_cast<std::uint32_t>(counter >> 32);
    const bool whole = c + Vector::kLanes <= end && c + Vector::kLanes <= in_last_row && low <= UINT32_MAX - Vector::kLanes;
    if (!whole) {
      philox_fill_block(fill, c++);
      continue;
    }
    const Vector zero = Vector::broadcast(0);
    const PhiloxWords<Vector> words =
        philox_rounds<Vector>({Vector::broadcast(low) + Vector::iota(), Vector::broadcast(high), zero, zero}, key0, key1);
    words.w0.store(fill.out + c);
    words.w1.store(fill.out + fill.blocks + c);
    words.w2.store(fill.out + 2 * fill.blocks + c);
    words.w3.store(fill.out + 3 * fill.blocks + c);
    c += Vector::kLanes;
  }
}

}  // namespace
}  // namespace neuron
