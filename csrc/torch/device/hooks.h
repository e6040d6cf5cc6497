// What ATen asks about the device outside of operators: availability, pinned memory, generators, storage growth.
#pragma once

#include <ATen/detail/PrivateUse1HooksInterface.h>

namespace neuron::torch_face {

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  // The extension is loaded, so the device was built.
  bool isBuilt() const override;
  // Required not to raise and not to start a core.
  bool isAvailable() const override;
  // Whether the device's core runs.
  bool hasPrimaryContext(c10::DeviceIndex index) const override;
  void init() const override;

  c10::DeviceIndex deviceCount() const override;
  void setCurrentDevice(c10::DeviceIndex index) const override;
  c10::DeviceIndex getCurrentDevice() const override;
  // Return the previous device. Index −1 changes nothing.
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override;
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override;

  // True for any address inside a block of the pinned host allocator.
  bool isPinnedPtr(const void* data) const override;
  c10::Allocator* getPinnedMemoryAllocator() const override;
  // The device whose memory holds the address; an error if there is none.
  c10::Device getDeviceFromPtr(void* data) const override;

  // −1: of the current device.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override;
  at::Generator getNewGenerator(c10::DeviceIndex index) const override;

  // Gives the storage `bytes` bytes and keeps the first min(old, new) of its contents, in the order of the current stream.
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override;
};

}  // namespace neuron::torch_face
