// The current stream of each thread and device, and the two names a stream has: neuron::Stream here, c10::Stream in PyTorch.
#pragma once

#include <c10/core/Stream.h>

#include "core/core.h"
#include "torch/device/device.h"

namespace neuron::torch_face {

// The calling thread's stream of a device: its default stream unless set. Starts the device's core on first use.
Stream& current_stream(c10::DeviceIndex index);
// Makes `stream` the calling thread's stream of its device and returns the previous one. The current device stays.
Stream& exchange_stream(Stream& stream);

// A PyTorch stream's id is the id that its core gave it.
c10::Stream to_c10(const Stream& stream);
Stream& from_c10(const c10::Stream& stream);

// Waits for everything queued so far, with the GIL released if the caller holds it; errors are translated.
void synchronize(Stream& stream);
void synchronize(Core& core);

}  // namespace neuron::torch_face
