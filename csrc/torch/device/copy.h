// Tensor.copy_ and .to() to, from and between neuron devices.
#pragma once

#include <ATen/core/Tensor.h>

namespace neuron::torch_face {

// aten::_copy_from: writes `source`, broadcast to its sizes, into `destination`. At least one of the two is on a neuron device.
//
// Device to device and pinned host memory with non_blocking=true: queued on the device's current stream. Host to device otherwise:
// the source may be changed when this returns. Device to host otherwise: waits for the stream, and raises what failed there.
at::Tensor copy_from(const at::Tensor& source, const at::Tensor& destination, bool non_blocking);

// aten::_copy_from_and_resize: the same after giving `destination` the source's sizes.
at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& destination);

// aten::_local_scalar_dense: the value of a tensor of one element. Waits for the device's current stream.
at::Scalar read_scalar(const at::Tensor& tensor);

// Queues a copy of bytes within the memory of one device on its current stream.
void copy_within_device(void* destination, const void* source, std::size_t bytes, c10::DeviceIndex index);

}  // namespace neuron::torch_face
