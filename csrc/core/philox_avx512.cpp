// Philox, sixteen blocks at once.
#if defined(__x86_64__)
// GCC 12 takes its own _mm512_undefined_epi32 for a mistake (PR 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <cstdint>

#pragma GCC target("avx512f")
#include "core/philox_lanes.h"

namespace neuron {
namespace {

struct Vector {
  static constexpr std::int64_t kLanes = 16;
  __m512i value;

  static Vector broadcast(std::uint32_t number) { return {_mm512_set1_epi32(static_cast<int>(number))}; }
  static Vector iota() { return {_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)}; }
  Vector operator+(Vector other) const { return {_mm512_add_epi32(value, other.value)}; }
  Vector operator^(Vector other) const { return {_mm512_xor_si512(value, other.value)}; }
  Vector operator^(std::uint32_t number) const { return *this ^ broadcast(number); }
  void store(std::uint32_t* out) const { _mm512_storeu_si512(out, value); }
};

// 32-bit products exist for the even lanes only.
inline void multiply(Vector word, std::uint32_t factor, Vector& high, Vector& low) {
  constexpr __mmask16 kOdd = 0xAAAA;
  const __m512i factors = _mm512_set1_epi32(static_cast<int>(factor));
  const __m512i even = _mm512_mul_epu32(word.value, factors);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(word.value, 32), factors);
  high.value = _mm512_mask_blend_epi32(kOdd, _mm512_srli_epi64(even, 32), odd);
  low.value = _mm512_mask_blend_epi32(kOdd, even, _mm512_slli_epi64(odd, 32));
}

}  // namespace

void philox_fill_avx512(const PhiloxFill& fill, std::int64_t begin, std::int64_t end) { philox_fill_vectors<Vector>(fill, begin, end); }

}  // namespace neuron
#endif
