#include "torch/device/guard.h"

#include <memory>

#include "core/event.h"
#include "torch/device/device_allocator.h"
#include "torch/device/error.h"
#include "torch/device/gil.h"
#include "torch/device/streams.h"

namespace neuron::torch_face {

namespace {

c10::Device device_at(c10::DeviceIndex index) { return {kNeuron, index}; }

Core& core_at(c10::Device device) {
  ensure_initialized();
  const auto index = device_or_current(device.index());
  return translated([&]() -> Core& { return core(index); });
}

Event& as_event(void* event) { return *static_cast<Event*>(event); }

}  // namespace

c10::DeviceType GuardImpl::type() const { return kNeuron; }

c10::Device GuardImpl::exchangeDevice(c10::Device device) const { return device_at(exchange_device(device.index())); }

c10::Device GuardImpl::getDevice() const { return device_at(current_device()); }

void GuardImpl::setDevice(c10::Device device) const {
  TORCH_CHECK(device.type() == kNeuron, "expected a neuron device, got ", device);
  exchange_device(device.index());
}

void GuardImpl::uncheckedSetDevice(c10::Device device) const noexcept {
  if (device.index() >= 0) detail::current_device = device.index();
}

c10::DeviceIndex GuardImpl::deviceCount() const noexcept { return device_count(); }

c10::DeviceCapability GuardImpl::getDeviceCapability(c10::Device) const {
  c10::DeviceCapability capability;
  auto& dtypes = capability.capability_data.supported_scalar_types;
  dtypes.has_QInt8 = dtypes.has_QUInt8 = dtypes.has_QInt32 = 0;
  return capability;
}

c10::Stream GuardImpl::getStream(c10::Device device) const {
  ensure_initialized();
  return to_c10(current_stream(device_or_current(device.index())));
}

c10::Stream GuardImpl::getDefaultStream(c10::Device device) const { return to_c10(core_at(device).default_stream()); }

c10::Stream GuardImpl::getStreamFromGlobalPool(c10::Device device, bool is_high_priority) const {
  return getNewStream(device, is_high_priority ? -1 : 0);
}

c10::Stream GuardImpl::getNewStream(c10::Device device, int priority) const {
  Core& core = core_at(device);
  return translated([&] { return to_c10(core.stream_from_pool(priority < 0 ? -1 : 0)); });
}

c10::Stream GuardImpl::exchangeStream(c10::Stream stream) const {
  ensure_initialized();
  return to_c10(exchange_stream(from_c10(stream)));
}

void* GuardImpl::getStreamNativeHandle(const c10::Stream stream) const {
  ensure_initialized();
  return &from_c10(stream);
}

bool GuardImpl::queryStream(const c10::Stream& stream) const { return from_c10(stream).query(); }

void GuardImpl::synchronizeStream(const c10::Stream& stream) const { synchronize(from_c10(stream)); }

void GuardImpl::synchronizeDevice(const c10::DeviceIndex index) const {
  const auto device = device_or_current(index);
  // Nothing was queued on a core that has not been started.
  if (core_started(device)) synchronize(core(device));
}

void GuardImpl::record(void** event, const c10::Stream& stream, const c10::DeviceIndex index, const c10::EventFlag flag) const {
  TORCH_CHECK(index < 0 || index == stream.device_index(), "event of neuron:", static_cast<int>(index),
              " cannot be recorded on a stream of neuron:", static_cast<int>(stream.device_index()));
  ensure_initialized();
  Stream& target = from_c10(stream);
  if (!*event) *event = std::make_unique<Event>(flag == c10::EventFlag::BACKEND_DEFAULT).release();
  translated([&] { as_event(*event).record(target); });
}

void GuardImpl::block(void* event, const c10::Stream& stream) const {
  if (!event) return;
  ensure_initialized();
  Stream& target = from_c10(stream);
  translated([&] { as_event(event).block(target); });
}

bool GuardImpl::queryEvent(void* event) const { return !event || as_event(event).query(); }

void GuardImpl::synchronizeEvent(void* event) const {
  if (!event) return;
  const GilRelease release;
  translated([&] { as_event(event).synchronize(); });
}

double GuardImpl::elapsedTime(void* first, void* second, const c10::DeviceIndex) const {
  TORCH_CHECK(first && second, "elapsed_time: both events must have been recorded");
  return translated([&] { return as_event(first).elapsed_ms(as_event(second)); });
}

void GuardImpl::destroyEvent(void* event, const c10::DeviceIndex) const noexcept { delete static_cast<Event*>(event); }

void GuardImpl::recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const {
  device_allocator().recordStream(data, stream);
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl)

}  // namespace neuron::torch_face
