#include "torch/device/streams.h"

#include <array>
#include <limits>

#include "torch/device/error.h"
#include "torch/device/gil.h"

namespace neuron::torch_face {

namespace {

// Null: the device's default stream.
constinit thread_local std::array<Stream*, std::numeric_limits<c10::DeviceIndex>::max()> current_streams{};

}  // namespace

Stream& current_stream(c10::DeviceIndex index) {
  if (Stream* stream = current_streams[static_cast<std::size_t>(index)]) return *stream;
  return translated([&]() -> Stream& { return core(index).default_stream(); });
}

Stream& exchange_stream(Stream& stream) {
  const auto index = static_cast<c10::DeviceIndex>(stream.core().index());
  Stream& previous = current_stream(index);
  current_streams[static_cast<std::size_t>(index)] = &stream;
  return previous;
}

c10::Stream to_c10(const Stream& stream) {
  const c10::Device device(kNeuron, static_cast<c10::DeviceIndex>(stream.core().index()));
  return c10::Stream(c10::Stream::UNSAFE, device, stream.id());
}

Stream& from_c10(const c10::Stream& stream) {
  TORCH_CHECK(stream.device_type() == kNeuron, "expected a stream of a neuron device, got one of ", stream.device());
  check_device(stream.device_index());
  return translated([&]() -> Stream& { return core(stream.device_index()).stream(stream.id()); });
}

void synchronize(Stream& stream) {
  const GilRelease release;
  translated([&] { stream.synchronize(); });
}

void synchronize(Core& core) {
  const GilRelease release;
  translated([&] { core.synchronize(); });
}

}  // namespace neuron::torch_face
