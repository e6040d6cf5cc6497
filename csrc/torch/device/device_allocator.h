// PyTorch's device allocator over the allocator of each core.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

namespace neuron::torch_face {

class DeviceAllocator final : public c10::DeviceAllocator {
 public:
  // A block on the current device for use in the order of its current stream. Zero bytes: a null pointer that carries the device.
  // Raises torch.OutOfMemoryError with the runtime's account of the memory.
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  // Both blocks lie on the same device; in the order of the current stream.
  void copy_data(void* destination, const void* source, std::size_t bytes) const override;

  // The allocators need no preparation: a core makes its own when it starts.
  bool initialized() override;
  // Gives unused segments of every started core back to the system. There are no private pools; the id must be {0, 0}.
  void emptyCache(c10::MempoolId_t pool) override;
  // Keeps the block from reuse until what is queued on the stream now has run. Null is ignored.
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override;
  // All zero for a device that has not been used.
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override;
  void resetAccumulatedStats(c10::DeviceIndex index) override;
  void resetPeakStats(c10::DeviceIndex index) override;
  // Free and total bytes.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override;
};

DeviceAllocator& device_allocator();

}  // namespace neuron::torch_face
