// Copy commands: what moves bytes between host and device memory, or within device memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>

#include "core/core.h"

namespace neuron::torch_face {

// Queues a copy of `bytes` bytes on `stream`; the ranges may overlap. `keep_alive` is held until it has run.
void submit_copy(Stream& stream, void* destination, const void* source, std::size_t bytes, std::shared_ptr<void> keep_alive = nullptr);

// Queues the copy of a tensor into another of equal sizes: any strides, dtypes and conjugate or negative bits; on the host or on a
// device. Tensors with the same dense layout and meaning become one copy of bytes. The caller sees to it that the memory outlives the
// command: device memory does in the order of its stream; for host memory, `keep_alive` is held until it has run.
void submit_tensor_copy(Stream& stream, const at::Tensor& destination, const at::Tensor& source,
                        std::shared_ptr<void> keep_alive = nullptr);

// Waits for `stream`, then reads `bytes` bytes of device memory.
void read_device(Stream& stream, void* destination, const void* source, std::size_t bytes);

// Whether copying is moving bytes: equal dtype, conjugate and negative bits.
bool same_representation(const at::Tensor& a, const at::Tensor& b);

}  // namespace neuron::torch_face
