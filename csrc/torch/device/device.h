// Which devices there are, which one a thread uses, and the first use of any of them.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DeviceType.h>

#include <atomic>

#include "core/core.h"

namespace neuron::torch_face {

inline constexpr c10::DeviceType kNeuron = c10::DeviceType::PrivateUse1;
// PyTorch's index for a device that was given without one. Other negative indices are errors: "neuron:200" arrives as −56.
inline constexpr c10::DeviceIndex kCurrentDevice = -1;

namespace detail {
extern constinit thread_local c10::DeviceIndex current_device;
extern std::atomic<bool> initialized;
void initialize();
}  // namespace detail

// Number of devices of this process. Starts nothing.
c10::DeviceIndex device_count() noexcept;

// Throws an error that names the valid range if there is no device of this index.
void check_device(c10::DeviceIndex index);

// The calling thread's current device; 0 unless set.
inline c10::DeviceIndex current_device() noexcept { return detail::current_device; }

// Makes `index` the calling thread's current device and returns the previous one. kCurrentDevice changes nothing.
c10::DeviceIndex exchange_device(c10::DeviceIndex index);

// `index`, or the current device for kCurrentDevice; checked.
c10::DeviceIndex device_or_current(c10::DeviceIndex index);

// Runs torch.neuron._lazy_init once per process, before the device is first used; raises in a forked child of a process that
// has used the device. Costs one relaxed load afterwards: the flag is set after the work, by the thread that holds the GIL, and
// a thread that still reads false takes the GIL and looks again.
inline void ensure_initialized() {
  if (!detail::initialized.load(std::memory_order_relaxed)) [[unlikely]]
    detail::initialize();
}

bool is_initialized() noexcept;
// Called by torch.neuron._lazy_init when its work is done.
void mark_initialized() noexcept;

// The calling thread's current device is `index` within the scope.
class DeviceScope {
 public:
  explicit DeviceScope(c10::DeviceIndex index) : previous_(exchange_device(index)) {}
  ~DeviceScope() { detail::current_device = previous_; }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  c10::DeviceIndex previous_;
};

}  // namespace neuron::torch_face
