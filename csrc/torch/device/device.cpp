#include "torch/device/device.h"

#include <c10/util/Exception.h>
#include <pthread.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include <algorithm>

#include "torch/device/error.h"

namespace neuron::torch_face {

namespace detail {

constinit thread_local c10::DeviceIndex current_device = 0;
std::atomic<bool> initialized = false;

void initialize() { torch::utils::device_lazy_init(kNeuron); }

}  // namespace detail

namespace {

// The executor threads of the parent do not exist in a forked child: its first use must go through torch.neuron._lazy_init again,
// which refuses. in_forked_child() may be told only after this handler.
void forget_initialization() {
  bool any_started = false;
  for (int index = 0; index < device_count(); ++index) any_started |= core_started(index);
  if (!any_started) return;
  detail::initialized.store(false, std::memory_order_relaxed);
  torch::utils::set_requires_device_init(kNeuron, true);
}

[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, forget_initialization);

}  // namespace

c10::DeviceIndex device_count() noexcept {
  // A device index of PyTorch counts to 127.
  static const auto count = static_cast<c10::DeviceIndex>(std::min(core_count(), 127));
  return count;
}

void check_device(c10::DeviceIndex index) {
  const int count = device_count();
  if (count == 0) translated([] { config(); });  // says what is wrong with the environment
  TORCH_CHECK(index >= 0 && index < count, "neuron device index ", static_cast<int>(index), " is out of range: this process sees ", count,
              count == 1 ? " device, the only valid index is 0" : c10::str(" devices, valid indices are 0 to ", count - 1));
}

c10::DeviceIndex exchange_device(c10::DeviceIndex index) {
  const auto previous = detail::current_device;
  if (index != kCurrentDevice && index != previous) {
    check_device(index);
    detail::current_device = index;
  }
  return previous;
}

c10::DeviceIndex device_or_current(c10::DeviceIndex index) {
  if (index == kCurrentDevice) return current_device();
  check_device(index);
  return index;
}

bool is_initialized() noexcept { return detail::initialized.load(std::memory_order_relaxed); }

void mark_initialized() noexcept { detail::initialized.store(true, std::memory_order_relaxed); }

}  // namespace neuron::torch_face
