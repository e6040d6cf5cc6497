#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include "allocator_model.h"
#include "check.h"
#include "core/arena.h"
#include "core/core.h"
#include "core/error.h"
#include "random_program.h"

using neuron::Allocator;
using neuron::AllocatorStats;
using neuron::Arena;
using neuron::InvalidArgument;
using neuron::OutOfMemory;

namespace {

constexpr std::size_t kMiB = 1 << 20;

// An allocator over 64 MiB whose streams are numbers.
struct Device {
  explicit Device(std::size_t capacity = 64 * kMiB) : arena(capacity, false), allocator(arena, clock, 3) {}
  FakeClock clock;
  Arena arena;
  Allocator allocator;
};

std::uintptr_t address(void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

std::size_t random_size(std::mt19937& random) {
  const auto below = [&random](std::size_t limit) { return 1 + random() % limit; };
  switch (random() % 8) {
    case 0:
      return below(300);
    case 1:
      return 256 * below(40);
    case 2:
    case 3:
      return below(kMiB);
    case 4:
      return kMiB - 2 + below(4);
    case 5:
      return below(16 * kMiB);
    case 6:
      return 16 * kMiB - 300 + below(600);
    default:
      return below(40 * kMiB);
  }
}

void run_program(unsigned seed) {
  std::mt19937 random(seed);
  Device device;
  AllocatorModel model(64 * kMiB, device.clock);
  std::vector<std::uintptr_t> live;
  for (int step = 0; step < 40; ++step) {
    const unsigned choice = random() % 20;
    const auto stream = static_cast<neuron::StreamId>(random() % 3);
    if (choice < 9 || live.empty()) {
      const std::size_t bytes = random_size(random);
      FakeClock before = device.clock;
      std::uintptr_t result = 0;
      try {
        result = address(device.allocator.allocate(bytes, stream));
      } catch (const OutOfMemory&) {
      }
      std::swap(before, device.clock);  // the model lives through the same waits itself
      model.allocate(bytes, stream, result);
      CHECK(std::ranges::equal(before.done, device.clock.done));
      CHECK_EQUAL(result % 256, 0U);
      if (result != 0) live.push_back(result);
    } else if (choice < 15) {
      const std::size_t index = random() % live.size();
      device.allocator.free(reinterpret_cast<void*>(live[index]));
      model.free(live[index]);
      live.erase(live.begin() + index);
    } else if (choice < 17) {
      const std::uintptr_t block = live[random() % live.size()];
      device.allocator.record_stream(reinterpret_cast<void*>(block), stream);
      model.record_stream(block, stream);
    } else if (choice < 18) {
      device.clock.queued[stream] += 1 + random() % 3;
    } else if (choice < 19) {
      device.clock.done[stream] += (device.clock.queued[stream] - device.clock.done[stream] + 1) / 2;
    } else {
      FakeClock before = device.clock;
      device.allocator.empty_cache();
      std::swap(before, device.clock);
      model.empty_cache();
    }
    model.compare(device.allocator.stats(), device.allocator.snapshot());
  }
}

}  // namespace

TEST(allocator_random_programs_agree_with_the_model) {
  for (int seed = 0; seed < random_programs; ++seed) {
    try {
      run_program(seed);
    } catch (const std::exception& error) {
      throw std::logic_error("program " + std::to_string(seed) + ": " + error.what());
    }
  }
}

TEST(allocator_rounds_requests_to_classes) {
  Device device;
  const std::pair<std::size_t, std::size_t> expected[] = {{1, 256},
                                                          {256, 256},
                                                          {257, 512},
                                                          {4096, 4096},
                                                          {4097, 4352},
                                                          {8192, 8192},
                                                          {8193, 8448},
                                                          {16385, 16640},
                                                          {1000000, 123 * 8192},
                                                          {kMiB, kMiB},
                                                          {kMiB + 1, kMiB + kMiB / 64},
                                                          {15 * kMiB + 1, 15 * kMiB + kMiB / 8},
                                                          {16 * kMiB - 1, 16 * kMiB},
                                                          {16 * kMiB + 1, 16 * kMiB + 256}};
  for (const auto& [request, size] : expected) {
    CHECK_EQUAL(AllocatorModel::rounded(request), size);
    void* const block = device.allocator.allocate(request, 0);
    const std::int64_t allocated = device.allocator.stats().allocated_bytes[neuron::kAggregate].current;
    CHECK(allocated >= static_cast<std::int64_t>(size));
    if (size <= kMiB) CHECK_EQUAL(allocated, static_cast<std::int64_t>(size));
    CHECK_EQUAL(device.allocator.stats().requested_bytes[neuron::kAggregate].current, static_cast<std::int64_t>(request));
    device.allocator.free(block);
  }
}

TEST(allocator_reuses_a_block_at_once_on_its_stream_only) {
  Device device;
  device.clock.queued[1] = 5;
  void* const first = device.allocator.allocate(1000, 1);
  device.allocator.free(first);
  CHECK_EQUAL(device.allocator.allocate(1000, 1), first);
  device.allocator.free(first);
  CHECK(device.allocator.allocate(1000, 2) != first);
}

TEST(allocator_keeps_a_recorded_block_until_the_stream_has_passed) {
  Device device;
  void* const first = device.allocator.allocate(1000, 0);
  device.allocator.record_stream(first, 2);
  device.clock.queued[2] = 4;
  device.allocator.free(first);
  CHECK_EQUAL(device.allocator.stats().allocation[neuron::kAggregate].current, 0);
  CHECK_EQUAL(device.allocator.stats().active[neuron::kAggregate].current, 1);
  device.clock.done[2] = 3;
  void* const second = device.allocator.allocate(1000, 0);
  CHECK(second != first);
  device.allocator.free(second);
  device.clock.done[2] = 4;
  CHECK_EQUAL(device.allocator.allocate(1000, 0), first);
  CHECK_EQUAL(device.allocator.stats().active[neuron::kAggregate].current, 1);
}

TEST(allocator_out_of_memory_says_what_helps_and_recovers) {
  Device device;
  std::vector<void*> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(device.allocator.allocate(20 * kMiB, 0));
  const std::string text = THROWN(OutOfMemory, device.allocator.allocate(8 * kMiB, 0));
  CHECK_CONTAINS(text, "neuron:3 is out of memory: tried to allocate 8.00 MiB. Capacity 64.00 MiB, free 4.00 MiB");
  CHECK_CONTAINS(text, "60.00 MiB is allocated to tensors, 0 bytes is reserved but unallocated (largest free block 0 bytes)");
  CHECK_CONTAINS(text, "use a smaller batch, or raise TORCH_NEURONX_DEVICE_MEMORY (now 64.00 MiB)");
  CHECK_EQUAL(device.allocator.stats().num_alloc_retries, 1);
  CHECK_EQUAL(device.allocator.stats().num_ooms, 1);
  device.allocator.free(blocks[0]);
  std::memset(device.allocator.allocate(24 * kMiB, 0), 1, 24 * kMiB);
  CHECK_EQUAL(device.allocator.stats().num_alloc_retries, 2);
  CHECK_EQUAL(device.allocator.stats().num_ooms, 1);
  CHECK_EQUAL(device.allocator.free_bytes(), 0U);
  THROWN(OutOfMemory, device.allocator.allocate(SIZE_MAX, 0));
}

TEST(allocator_out_of_memory_names_fragmentation) {
  Device device(4 * kMiB);
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(device.allocator.allocate(kMiB / 2, 0));
  for (int i = 0; i < 8; i += 2) device.allocator.free(blocks[i]);
  const std::string text = THROWN(OutOfMemory, device.allocator.allocate(kMiB, 0));
  CHECK_CONTAINS(text, "2.00 MiB is reserved but unallocated (largest free block 512.00 KiB)");
  CHECK_CONTAINS(text, "fragmented");
  CHECK_CONTAINS(text, "empty_cache()");
}

TEST(allocator_memory_fraction_limits_the_process) {
  Device device;
  device.allocator.set_memory_fraction(0.5);
  void* const block = device.allocator.allocate(30 * kMiB, 0);
  const std::string text = THROWN(OutOfMemory, device.allocator.allocate(20 * kMiB, 0));
  CHECK_CONTAINS(text, "The process may use 32.00 MiB (memory fraction 0.5)");
  CHECK_CONTAINS(text, "Raise torch.neuron.set_per_process_memory_fraction (now 0.5)");
  device.allocator.free(block);
  device.allocator.free(device.allocator.allocate(32 * kMiB, 0));
  CHECK_CONTAINS(THROWN(InvalidArgument, device.allocator.set_memory_fraction(0.0)), "greater than 0, at most 1");
  THROWN(InvalidArgument, device.allocator.set_memory_fraction(1.5));
}

TEST(allocator_empty_cache_gives_memory_back_zeroed) {
  Device device;
  auto* const block = static_cast<char*>(device.allocator.allocate(20 * kMiB, 0));
  std::memset(block, 7, 20 * kMiB);
  device.allocator.free(block);
  CHECK_EQUAL(device.arena.committed(), 20 * kMiB);
  device.allocator.empty_cache();
  CHECK_EQUAL(device.arena.committed(), 0U);
  CHECK_EQUAL(device.allocator.stats().num_device_free, 1);
  auto* const again = static_cast<char*>(device.allocator.allocate(20 * kMiB, 0));
  CHECK_EQUAL(again, block);
  CHECK_EQUAL(again[5 * kMiB], 0);
}

TEST(allocator_refuses_what_is_not_a_block) {
  Device device;
  auto* const block = static_cast<char*>(device.allocator.allocate(1000, 0));
  CHECK_CONTAINS(THROWN(InvalidArgument, device.allocator.free(block + 256)), "is not an allocated block of neuron:3");
  int local = 0;
  THROWN(InvalidArgument, device.allocator.free(&local));
  THROWN(InvalidArgument, device.allocator.record_stream(&local, 1));
  THROWN(InvalidArgument, device.allocator.allocate(0, 0));
  device.allocator.free(nullptr);
  device.allocator.free(block);
  THROWN(InvalidArgument, device.allocator.free(block));
}

TEST(allocator_finds_the_block_of_an_interior_address) {
  Device device;
  auto* const small = static_cast<char*>(device.allocator.allocate(10000, 0));
  auto* const large = static_cast<char*>(device.allocator.allocate(30 * kMiB, 0));
  CHECK(device.allocator.block_of(small + 9999) == std::pair(address(small), AllocatorModel::rounded(10000)));
  CHECK(device.allocator.block_of(large + 29 * kMiB) == std::pair(address(large), 30 * kMiB));
  CHECK(device.allocator.block_of(small + 20000) == std::pair(std::uintptr_t{0}, std::size_t{0}));
  CHECK(device.allocator.block_of(&device) == std::pair(std::uintptr_t{0}, std::size_t{0}));
}

TEST(allocator_resets_statistics) {
  Device device;
  void* const block = device.allocator.allocate(1000, 0);
  device.allocator.free(device.allocator.allocate(3000, 0));
  device.allocator.reset_peak_stats();
  device.allocator.reset_accumulated_stats();
  const AllocatorStats stats = device.allocator.stats();
  const neuron::Stat& bytes = stats.allocated_bytes[neuron::kSmallPool];
  CHECK(bytes.current == 1024 && bytes.peak == 1024 && bytes.allocated == 0 && bytes.freed == 0);
  CHECK_EQUAL(stats.num_device_alloc, 0);
  device.allocator.free(block);
}

// Every thread writes its mark over its blocks and finds it there again.
TEST(allocator_serves_several_threads) {
  neuron::Core& core = neuron::core(0);
  std::vector<std::thread> threads;
  std::atomic<int> broken = 0;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&core, &broken, thread] {
      std::mt19937 random(thread);
      neuron::Allocator& allocator = core.allocator();
      std::vector<std::pair<char*, std::size_t>> blocks;
      for (int step = 0; step < 10 * random_programs; ++step) {
        if (blocks.size() < 20 && random() % 2 == 0) {
          const std::size_t bytes = 1 + random() % (random() % 10 == 0 ? 3 * kMiB : 5000);
          auto* const block = static_cast<char*>(allocator.allocate(bytes, thread % 2));
          block[0] = block[bytes - 1] = static_cast<char>(thread + 1);
          blocks.emplace_back(block, bytes);
        } else if (!blocks.empty()) {
          const auto [block, bytes] = blocks.back();
          blocks.pop_back();
          if (block[0] != thread + 1 || block[bytes - 1] != thread + 1) ++broken;
          if (random() % 4 == 0) allocator.record_stream(block, 2);
          allocator.free(block);
        }
        if (random() % 100 == 0) allocator.empty_cache();
      }
      for (const auto& [block, bytes] : blocks) allocator.free(block);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQUAL(broken.load(), 0);
  core.allocator().empty_cache();
  CHECK_EQUAL(core.allocator().stats().allocation[neuron::kAggregate].current, 0);
  CHECK_EQUAL(core.allocator().stats().reserved_bytes[neuron::kAggregate].current, 0);
}
