// Python's view of the device: what torch.neuron needs beyond the interfaces that PyTorch binds itself.
#include "torch/bindings.h"

#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <tuple>

#include "core/event.h"
#include "torch/device/device.h"
#include "torch/device/error.h"
#include "torch/device/generator.h"
#include "torch/device/gil.h"
#include "torch/device/host_allocator.h"
#include "torch/device/memory_history.h"
#include "torch/device/memory_snapshot.h"
#include "torch/device/streams.h"

namespace neuron::torch_face {

namespace {

namespace py = pybind11;

Core& usable_core(c10::DeviceIndex index) {
  ensure_initialized();
  const auto device = device_or_current(index);
  return translated([&]() -> Core& { return core(device); });
}

// The three numbers that torch.Stream's constructor takes.
using StreamIdentity = std::tuple<std::int64_t, c10::DeviceIndex, int>;

StreamIdentity identity_of(const Stream& stream) {
  return {stream.id(), static_cast<c10::DeviceIndex>(stream.core().index()), static_cast<int>(kNeuron)};
}

Stream& stream_by_id(std::int64_t id, c10::DeviceIndex index) {
  Core& core = usable_core(index);
  return translated([&]() -> Stream& { return core.stream(id); });
}

// Events by torch.Event.event_id, which is the address of the runtime's event, or 0 before the first record.
double elapsed_time(std::uintptr_t first, std::uintptr_t second) {
  TORCH_CHECK(first && second, "elapsed_time: both events must have been recorded");
  return translated([&] { return reinterpret_cast<const Event*>(first)->elapsed_ms(*reinterpret_cast<const Event*>(second)); });
}

py::dict configuration() {
  const Config& values = translated([]() -> const Config& { return config(); });
  py::dict result;
  result["core_count"] = values.core_count;
  result["lnc"] = values.lnc;
  result["platform"] = values.platform;
  result["capacity"] = values.capacity;
  result["launch_blocking"] = values.launch_blocking;
  result["protect_memory"] = values.protect_memory;
  return result;
}

void shut_down() {
  const GilRelease release;
  translated([] { shutdown(); });
}

Generator& neuron_generator(const at::Generator& generator) {
  TORCH_CHECK(generator.device().type() == kNeuron, "expected a generator of a neuron device, got one of ", generator.device());
  return *generator.get<Generator>();
}

template <typename Function>
auto wrapped(Function function) {
  return torch::wrap_pybind_function(function);
}

void bind_devices(py::module_& m) {
  m.def("_device_count", &device_count);
  m.def("_current_device", &current_device);
  m.def("_check_device", wrapped([](c10::DeviceIndex index) { check_device(index); }), py::arg("device"));
  m.def("_exchange_device", wrapped([](c10::DeviceIndex index) { return exchange_device(index); }), py::arg("device"));
  m.def("_is_initialized", &is_initialized);
  m.def("_mark_initialized", &mark_initialized);
  m.def("_in_forked_child", &in_forked_child);
  m.def("_core_started", [](c10::DeviceIndex index) { return core_started(index); }, py::arg("device"));
  m.def("_configuration", wrapped([] { return configuration(); }));
  m.def("_shutdown", wrapped([] { shut_down(); }));
}

void bind_streams(py::module_& m) {
  m.def("_current_stream", wrapped([](c10::DeviceIndex index) {
          ensure_initialized();
          return identity_of(current_stream(device_or_current(index)));
        }),
        py::arg("device"));
  m.def("_default_stream", wrapped([](c10::DeviceIndex index) { return identity_of(usable_core(index).default_stream()); }),
        py::arg("device"));
  m.def("_pooled_stream", wrapped([](c10::DeviceIndex index, int priority) {
          return identity_of(usable_core(index).stream_from_pool(priority < 0 ? -1 : 0));
        }),
        py::arg("device"), py::arg("priority"));
  m.def("_set_stream", wrapped([](std::int64_t id, c10::DeviceIndex index) { exchange_stream(stream_by_id(id, index)); }),
        py::arg("stream_id"), py::arg("device"));
  m.def("_stream_priority", wrapped([](std::int64_t id, c10::DeviceIndex index) { return stream_by_id(id, index).priority(); }),
        py::arg("stream_id"), py::arg("device"));
  m.def("_raw_stream", wrapped([](c10::DeviceIndex index) {
          ensure_initialized();
          return reinterpret_cast<std::uintptr_t>(&current_stream(device_or_current(index)));
        }),
        py::arg("device"));
  m.def("_sleep", wrapped([](c10::DeviceIndex index, std::int64_t nanoseconds) {
          ensure_initialized();
          Stream& stream = current_stream(device_or_current(index));
          translated([&] { stream.sleep(nanoseconds); });
        }),
        py::arg("device"), py::arg("nanoseconds"));
  m.def("_elapsed_time", wrapped([](std::uintptr_t first, std::uintptr_t second) { return elapsed_time(first, second); }),
        py::arg("event_id"), py::arg("end_event_id"));
}

void bind_memory(py::module_& m) {
  m.def("_set_memory_fraction", wrapped([](double fraction, c10::DeviceIndex index) {
          Core& core = usable_core(index);
          translated([&] { core.allocator().set_memory_fraction(fraction); });
        }),
        py::arg("fraction"), py::arg("device"));
  m.def("_memory_snapshot", wrapped([] { return memory_snapshot(); }));
  m.def("_start_memory_history", wrapped([](std::size_t capacity, bool with_stacks) { memory_history().start(capacity, with_stacks); }),
        py::arg("capacity"), py::arg("with_stacks"));
  m.def("_stop_memory_history", [] { memory_history().stop(); });
}

void bind_generators(py::module_& m) {
  m.def("_default_generator", wrapped([](c10::DeviceIndex index) { return default_generator(device_or_current(index)); }),
        py::arg("device"));
  m.def("_reserve",
        wrapped([](const at::Generator& generator, std::uint64_t blocks) { return neuron_generator(generator).reserve(blocks); }),
        py::arg("generator"), py::arg("blocks"));
}

}  // namespace

void bind_device(py::module_& m) {
  bind_devices(m);
  bind_streams(m);
  bind_memory(m);
  bind_generators(m);
}

}  // namespace neuron::torch_face
