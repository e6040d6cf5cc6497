#include <cstdlib>
#include <thread>

#include "check.h"
#include "core/core.h"
#include "core/philox.h"
#include "core/philox_lanes.h"
#include "image_writer.h"

namespace {

// Splits a range over three threads, whatever the grain.
void three_threads(std::int64_t range, std::int64_t, void (*body)(void*, std::int64_t, std::int64_t), void* context) {
  std::vector<std::thread> threads;
  for (std::int64_t part = 0; part < 3; ++part) threads.emplace_back(body, context, range * part / 3, range * (part + 1) / 3);
  for (std::thread& thread : threads) thread.join();
}

std::vector<std::uint32_t> filled(std::uint64_t seed, std::uint64_t offset, std::int64_t count) {
  std::vector<std::uint32_t> out(count + 1, 0xABABABAB);
  neuron::philox_fill(seed, offset, out.data(), count);
  CHECK_EQUAL(out[count], 0xABABABABU);
  out.pop_back();
  return out;
}

}  // namespace

// The known-answer vectors published with Random123.
TEST(philox_block_gives_the_known_answers) {
  using Block = std::array<std::uint32_t, 4>;
  constexpr std::uint32_t kOnes = 0xFFFFFFFF;
  CHECK((neuron::philox_block({0, 0, 0, 0}, {0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  CHECK((neuron::philox_block({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) == Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  CHECK((neuron::philox_block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
         Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(philox_fill_places_word_w_of_block_c_at_w_times_m_plus_c) {
  const std::uint64_t seed = 0x123456789ABCDEF0, offset = 0xFFFFFFFFFFFFFFF0;  // the counter passes through 2^64
  for (const std::int64_t count : {1, 2, 3, 4, 5, 7, 63, 64, 65, 255, 256, 257, 1000, 100'003}) {
    const std::vector<std::uint32_t> out = filled(seed, offset, count);
    const std::int64_t m = (count + 3) / 4;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint64_t counter = offset + static_cast<std::uint64_t>(i % m);
      const auto block = neuron::philox_block({static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0},
                                              {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
      CHECK_EQUAL(out[i], block[i / m]);
    }
  }
}

#if defined(__x86_64__)
TEST(philox_gives_the_same_numbers_on_every_instruction_set) {
  const std::uint64_t offset = 0xFFFFFFFF - 100;  // the low counter word wraps on the way
  const std::vector<std::uint32_t> expected = filled(5, offset, 4003);
  std::vector<std::pair<neuron::PhiloxFillRange, bool>> variants = {{neuron::philox_fill_avx2, __builtin_cpu_supports("avx2")},
                                                                    {neuron::philox_fill_avx512, __builtin_cpu_supports("avx512f")}};
  for (const auto& [fill_range, supported] : variants) {
    if (!supported) continue;
    std::vector<std::uint32_t> out(4003);
    const neuron::PhiloxFill fill{5, offset, out.data(), 4003, 1001};
    fill_range(fill, 0, 333);
    fill_range(fill, 333, 1001);
    CHECK(out == expected);
  }
  for (std::int64_t c = 0; c < 1001; ++c) {
    const std::uint64_t counter = offset + static_cast<std::uint64_t>(c);
    CHECK_EQUAL(expected[c],
                neuron::philox_block({static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0}, {5, 0})[0]);
  }
}
#endif

TEST(philox_fill_does_not_depend_on_the_thread_count) {
  for (const std::int64_t count : {100'000, 500'001}) {
    neuron::set_parallel_for([](std::int64_t range, std::int64_t, auto body, void* context) { body(context, 0, range); });
    const std::vector<std::uint32_t> serial = filled(42, 7, count);
    neuron::set_parallel_for(three_threads);
    CHECK(filled(42, 7, count) == serial);
  }
}

TEST(philox_is_a_library_kernel) {
  Image image;
  image.output_bytes = {40};
  image.scalar_count = 3;
  ImageStep step;
  step.library = true;
  step.name = "philox";
  step.buffers = {{neuron::Space::kOutput, 0, 0}};
  step.tensors = {{nullptr, neuron::DType::kUInt32, {10}, {1}}};
  step.scalars = {2, 1};  // slots of seed and offset
  image.steps = {step};
  std::uint32_t out[10];
  void* const buffers[] = {out};
  image.load()->run(buffers, nullptr, std::vector<std::uint64_t>{0, 5, 99});
  CHECK(std::vector<std::uint32_t>(out, out + 10) == filled(99, 5, 10));
}
