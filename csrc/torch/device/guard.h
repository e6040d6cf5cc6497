// PyTorch's device guard: devices, streams and events of the neuron device as c10 sees them.
#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace neuron::torch_face {

class GuardImpl final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override;

  // Makes a device current and returns the previous one. Index −1 changes nothing. An index out of range is an error, as core does not
  // check it: torch.empty(2, device="neuron:9") comes here as it is.
  c10::Device exchangeDevice(c10::Device device) const override;
  c10::Device getDevice() const override;
  void setDevice(c10::Device device) const override;
  // Called from destructors, with a device that was current before.
  void uncheckedSetDevice(c10::Device device) const noexcept override;
  // Required not to raise; starts nothing.
  c10::DeviceIndex deviceCount() const noexcept override;
  // Supported dtypes: all but the quantized and sub-byte ones.
  c10::DeviceCapability getDeviceCapability(c10::Device device) const override;

  // The calling thread's current stream of the device.
  c10::Stream getStream(c10::Device device) const override;
  c10::Stream getDefaultStream(c10::Device device) const override;
  // One of the device's pooled streams, handed out round robin.
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool is_high_priority) const override;
  // As above; a negative priority is high, any other is normal.
  c10::Stream getNewStream(c10::Device device, int priority) const override;
  // Makes a stream current for its device, whichever device is current, and returns the previous one.
  c10::Stream exchangeStream(c10::Stream stream) const override;
  // The runtime's stream object; it lives as long as the process.
  void* getStreamNativeHandle(const c10::Stream stream) const override;
  bool queryStream(const c10::Stream& stream) const override;
  // Raises what failed on the stream since the last synchronisation.
  void synchronizeStream(const c10::Stream& stream) const override;
  void synchronizeDevice(const c10::DeviceIndex index) const override;

  // Creates *event on the first record. Later records move its mark and must be on streams of the same device.
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex index, const c10::EventFlag flag) const override;
  // Null (never recorded) counts as reached in the three below.
  void block(void* event, const c10::Stream& stream) const override;
  bool queryEvent(void* event) const override;
  void synchronizeEvent(void* event) const override;
  // Milliseconds from the first event's mark to the second's; both must have been made with timing and have been reached.
  double elapsedTime(void* first, void* second, const c10::DeviceIndex index) const override;
  void destroyEvent(void* event, const c10::DeviceIndex index) const noexcept override;

  // Keeps the block from reuse until what is queued on the stream now has run.
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override;
};

}  // namespace neuron::torch_face
