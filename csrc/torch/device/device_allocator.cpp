#include "torch/device/device_allocator.h"

#include "torch/device/copy.h"
#include "torch/device/device.h"
#include "torch/device/error.h"
#include "torch/device/memory_history.h"
#include "torch/device/streams.h"

namespace neuron::torch_face {

namespace {

struct Totals {
  std::size_t allocated, reserved;
};

Totals totals(const Allocator& allocator) {
  const auto stats = allocator.stats();
  return {static_cast<std::size_t>(stats.allocated_bytes[kAggregate].current),
          static_cast<std::size_t>(stats.reserved_bytes[kAggregate].current)};
}

void report_usage(Core& core, void* pointer, std::int64_t bytes) {
  const auto [allocated, reserved] = totals(core.allocator());
  c10::reportMemoryUsageToProfiler(pointer, bytes, allocated, reserved, {kNeuron, static_cast<c10::DeviceIndex>(core.index())});
}

bool observed() { return memory_history().enabled() || c10::memoryProfilingEnabled(); }

void observe_allocation(Core& core, void* pointer, std::size_t bytes, StreamId stream) {
  memory_history().record(MemoryAction::kAllocate, core.index(), pointer, bytes, stream);
  if (c10::memoryProfilingEnabled()) report_usage(core, pointer, static_cast<std::int64_t>(core.allocator().block_of(pointer).second));
}

void observe_out_of_memory(Core& core, std::size_t bytes, StreamId stream) {
  memory_history().record(MemoryAction::kOutOfMemory, core.index(), nullptr, bytes, stream);
  const auto [allocated, reserved] = totals(core.allocator());
  c10::reportOutOfMemoryToProfiler(static_cast<std::int64_t>(bytes), allocated, reserved,
                                   {kNeuron, static_cast<c10::DeviceIndex>(core.index())});
}

// Deleter of all device blocks. In a forked child the block belongs to the parent's device and is let go with the process.
void free_block(void* pointer) {
  if (!pointer || in_forked_child()) return;
  Core& owner = core(core_of(pointer));
  if (!observed()) return owner.allocator().free(pointer);
  const auto bytes = owner.allocator().block_of(pointer).second;
  memory_history().record(MemoryAction::kFree, owner.index(), pointer, bytes, /*stream=*/0);
  owner.allocator().free(pointer);
  if (c10::memoryProfilingEnabled()) report_usage(owner, pointer, -static_cast<std::int64_t>(bytes));
}

void assign(c10::CachingAllocator::StatArray& target, const StatArray& source) {
  for (std::size_t type = 0; type < kStatTypes; ++type) {
    target[type] = {
        .current = source[type].current, .peak = source[type].peak, .allocated = source[type].allocated, .freed = source[type].freed};
  }
}

Core* started_core(c10::DeviceIndex index) {
  const auto device = device_or_current(index);
  return core_started(device) ? &core(device) : nullptr;
}

}  // namespace

c10::DataPtr DeviceAllocator::allocate(size_t bytes) {
  ensure_initialized();
  const auto index = current_device();
  const c10::Device device(kNeuron, index);
  if (bytes == 0) return {nullptr, device};
  Stream& stream = current_stream(index);
  Core& core = stream.core();
  void* pointer = nullptr;
  try {
    pointer = core.allocator().allocate(bytes, stream.id());
  } catch (const OutOfMemory&) {
    observe_out_of_memory(core, bytes, stream.id());
    rethrow_translated();
  }
  if (observed()) observe_allocation(core, pointer, bytes, stream.id());
  return {pointer, pointer, &free_block, device};
}

c10::DeleterFnPtr DeviceAllocator::raw_deleter() const { return &free_block; }

void DeviceAllocator::copy_data(void* destination, const void* source, std::size_t bytes) const {
  copy_within_device(destination, source, bytes, static_cast<c10::DeviceIndex>(core_of(destination)));
}

bool DeviceAllocator::initialized() { return true; }

void DeviceAllocator::emptyCache(c10::MempoolId_t pool) {
  TORCH_CHECK(pool == c10::MempoolId_t(0, 0), "neuron devices have no private memory pools, got the id (", pool.first, ", ", pool.second,
              ")");
  for (c10::DeviceIndex index = 0; index < device_count(); ++index) {
    if (core_started(index)) core(index).allocator().empty_cache();
  }
}

void DeviceAllocator::recordStream(const c10::DataPtr& data, c10::Stream stream) {
  if (!data.get()) return;
  const auto index = core_of(data.get());
  TORCH_CHECK(index == stream.device_index(), "record_stream: the tensor is on neuron:", index, ", the stream on ", stream.device());
  core(index).allocator().record_stream(data.get(), stream.id());
}

c10::CachingDeviceAllocator::DeviceStats DeviceAllocator::getDeviceStats(c10::DeviceIndex index) {
  c10::CachingDeviceAllocator::DeviceStats result;
  Core* core = started_core(index);
  if (!core) return result;
  const auto stats = core->allocator().stats();
  assign(result.allocation, stats.allocation);
  assign(result.segment, stats.segment);
  assign(result.active, stats.active);
  assign(result.inactive_split, stats.inactive_split);
  assign(result.allocated_bytes, stats.allocated_bytes);
  assign(result.reserved_bytes, stats.reserved_bytes);
  assign(result.active_bytes, stats.active_bytes);
  assign(result.inactive_split_bytes, stats.inactive_split_bytes);
  assign(result.requested_bytes, stats.requested_bytes);
  result.num_alloc_retries = stats.num_alloc_retries;
  result.num_ooms = stats.num_ooms;
  result.num_sync_all_streams = stats.num_sync_all_streams;
  result.num_device_alloc = stats.num_device_alloc;
  result.num_device_free = stats.num_device_free;
  return result;
}

void DeviceAllocator::resetAccumulatedStats(c10::DeviceIndex index) {
  if (Core* core = started_core(index)) core->allocator().reset_accumulated_stats();
}

void DeviceAllocator::resetPeakStats(c10::DeviceIndex index) {
  if (Core* core = started_core(index)) core->allocator().reset_peak_stats();
}

std::pair<size_t, size_t> DeviceAllocator::getMemoryInfo(c10::DeviceIndex index) {
  const auto capacity = static_cast<std::size_t>(config().capacity);
  Core* core = started_core(index);
  return core ? std::pair{core->allocator().free_bytes(), core->allocator().total_bytes()} : std::pair{capacity, capacity};
}

DeviceAllocator& device_allocator() {
  static DeviceAllocator allocator;
  return allocator;
}

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &device_allocator())

}  // namespace neuron::torch_face
