// Pinned host memory: blocks that asynchronous copies may read and write, reused when the streams are done with them.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace neuron::torch_face {

at::HostAllocator& host_allocator();

// Whether the address lies in a block of the allocator, at its start or inside.
bool is_pinned(const void* address);

}  // namespace neuron::torch_face
