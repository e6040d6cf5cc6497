#include "torch/device/host_allocator.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <new>
#include <shared_mutex>

#include "core/event.h"
#include "torch/device/device.h"
#include "torch/device/error.h"
#include "torch/device/streams.h"

namespace neuron::torch_face {

namespace {

// What a DMA engine would want; also keeps blocks off each other's pages.
constexpr std::align_val_t kAlignment{4096};

using PinnedEvent = std::unique_ptr<Event>;

// ATen's caching of pinned blocks, told how this device makes memory, streams and events.
class PinnedBlocks final : public at::CachingHostAllocatorImpl<c10::Stream, PinnedEvent> {
 public:
  // Start of the block that contains the address; null if none does.
  void* start_of(const void* address) const {
    const std::shared_lock lock(mutex_);
    const auto key = reinterpret_cast<std::uintptr_t>(address);
    auto block = blocks_.upper_bound(key);
    if (block == blocks_.begin()) return nullptr;
    --block;
    return key - block->first < block->second ? reinterpret_cast<void*>(block->first) : nullptr;
  }

  // Accepts addresses inside a block too.
  bool record_event(void* address, void* context, c10::Stream stream) override {
    return CachingHostAllocatorImpl::record_event(start_of(address), context, stream);
  }

  void copy_data(void* destination, const void* source, std::size_t bytes) const override { std::memcpy(destination, source, bytes); }

 private:
  void allocate_host_memory(size_t bytes, void** pointer) override {
    *pointer = ::operator new(bytes, kAlignment);
    const std::unique_lock lock(mutex_);
    blocks_.emplace(reinterpret_cast<std::uintptr_t>(*pointer), bytes);
  }

  void free_block(at::HostBlock<c10::Stream>* block) override {
    {
      const std::unique_lock lock(mutex_);
      blocks_.erase(reinterpret_cast<std::uintptr_t>(block->ptr_));
    }
    ::operator delete(block->ptr_, kAlignment);
  }

  void record_stream(std::optional<std::vector<PinnedEvent>>& events, c10::Stream stream) override {
    auto event = std::make_unique<Event>(/*timing=*/false);
    translated([&] { event->record(from_c10(stream)); });
    events->push_back(std::move(event));
  }

  bool query_event(PinnedEvent& event) override { return event->query(); }

  // Asked only while a stream is captured, which no neuron stream ever is.
  c10::Stream get_current_stream() const override { return to_c10(current_stream(current_device())); }
  bool stream_is_capturing(c10::Stream) const override { return false; }

  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, std::size_t> blocks_;  // start → bytes
};

void free_pinned(void* context);

class HostAllocator final : public at::CachingHostAllocatorInterface<PinnedBlocks, &free_pinned> {};

HostAllocator& instance() {
  // Leaked: tensors freed during static destruction still come here.
  static auto& allocator = *std::make_unique<HostAllocator>().release();
  return allocator;
}

// After a fork the streams are the parent's; the block is let go with the process.
void free_pinned(void* context) {
  if (!in_forked_child()) instance().free(context);
}

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, &instance())

}  // namespace

at::HostAllocator& host_allocator() { return instance(); }

bool is_pinned(const void* address) { return instance().impl_->start_of(address) != nullptr; }

}  // namespace neuron::torch_face
