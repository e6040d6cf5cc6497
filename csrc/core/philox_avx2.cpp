// Philox, eight blocks at once.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

#pragma GCC target("avx2")
#include "core/philox_lanes.h"

namespace neuron {
namespace {

struct Vector {
  static constexpr std::int64_t kLanes = 8;
  __m256i value;

  static Vector broadcast(std::uint32_t number) { return {_mm256_set1_epi32(static_cast<int>(number))}; }
  static Vector iota() { return {_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0)}; }
  Vector operator+(Vector other) const { return {_mm256_add_epi32(value, other.value)}; }
  Vector operator^(Vector other) const { return {_mm256_xor_si256(value, other.value)}; }
  Vector operator^(std::uint32_t number) const { return *this ^ broadcast(number); }
  void store(std::uint32_t* out) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), value); }
};

// 32-bit products exist for the even lanes only.
inline void multiply(Vector word, std::uint32_t factor, Vector& high, Vector& low) {
  constexpr int kOdd = 0xAA;
  const __m256i factors = _mm256_set1_epi32(static_cast<int>(factor));
  const __m256i even = _mm256_mul_epu32(word.value, factors);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(word.value, 32), factors);
  high.value = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, kOdd);
  low.value = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), kOdd);
}

}  // namespace

void philox_fill_avx2(const PhiloxFill& fill, std::int64_t begin, std::int64_t end) { philox_fill_vectors<Vector>(fill, begin, end); }

}  // namespace neuron
#endif
