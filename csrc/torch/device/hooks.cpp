#include "torch/device/hooks.h"

#include <algorithm>

#include "torch/device/copy.h"
#include "torch/device/device.h"
#include "torch/device/device_allocator.h"
#include "torch/device/generator.h"
#include "torch/device/host_allocator.h"

namespace neuron::torch_face {

bool Hooks::isBuilt() const { return true; }

bool Hooks::isAvailable() const { return device_count() > 0; }

bool Hooks::hasPrimaryContext(c10::DeviceIndex index) const {
  check_device(index);
  return core_started(index);
}

void Hooks::init() const { ensure_initialized(); }

c10::DeviceIndex Hooks::deviceCount() const { return device_count(); }

void Hooks::setCurrentDevice(c10::DeviceIndex index) const {
  check_device(index);
  exchange_device(index);
}

c10::DeviceIndex Hooks::getCurrentDevice() const { return current_device(); }

c10::DeviceIndex Hooks::exchangeDevice(c10::DeviceIndex index) const { return exchange_device(index); }

c10::DeviceIndex Hooks::maybeExchangeDevice(c10::DeviceIndex index) const { return exchange_device(index); }

bool Hooks::isPinnedPtr(const void* data) const { return is_pinned(data); }

c10::Allocator* Hooks::getPinnedMemoryAllocator() const { return &host_allocator(); }

c10::Device Hooks::getDeviceFromPtr(void* data) const {
  const int index = core_of(data);
  TORCH_CHECK(index >= 0, "the address ", data, " is not in the memory of a neuron device");
  return {kNeuron, static_cast<c10::DeviceIndex>(index)};
}

const at::Generator& Hooks::getDefaultGenerator(c10::DeviceIndex index) const { return default_generator(device_or_current(index)); }

at::Generator Hooks::getNewGenerator(c10::DeviceIndex index) const { return make_generator(device_or_current(index)); }

void Hooks::resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const {
  const auto device = storage.device();
  const DeviceScope scope(device.index());
  auto data = device_allocator().allocate(bytes);
  copy_within_device(data.get(), storage.data(), std::min(bytes, storage.nbytes()), device.index());
  auto* impl = storage.unsafeGetStorageImpl();
  impl->set_data_ptr_noswap(std::move(data));
  impl->set_nbytes(bytes);
}

namespace {

// Leaked: ATen may ask until the process ends.
[[maybe_unused]] const bool registered = (at::RegisterPrivateUse1HooksInterface(std::make_unique<Hooks>().release()), true);

}  // namespace

}  // namespace neuron::torch_face
