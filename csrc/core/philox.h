// Random bits: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace neuron {

// One block: four words from a counter and a key.
std::array<std::uint32_t, 4> philox_block(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept;

// Fills out[0, count): with m = ceil(count / 4), element w * m + c is word w of the block with counter (offset + c, 0) and key seed.
// The same numbers whatever the thread count.
void philox_fill(std::uint64_t seed, std::uint64_t offset, std::uint32_t* out, std::int64_t count);

}  // namespace neuron
