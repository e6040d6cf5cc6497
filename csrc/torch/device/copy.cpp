#include "torch/device/copy.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <memory>

#include "core/event.h"
#include "torch/device/error.h"
#include "torch/device/host_allocator.h"
#include "torch/device/streams.h"
#include "torch/device/transfer.h"
#include "torch/eager/eager.h"

namespace neuron::torch_face {

namespace {

// A pageable source up to this size is set aside when the device is busy, so that the caller need not wait; beyond, waiting is cheaper
// than the memory.
constexpr std::size_t kStagingBytes = 1 << 20;

Stream& stream_of(const at::Tensor& tensor) { return current_stream(tensor.get_device()); }

// A host tensor with `like`'s sizes and, if it is dense, its strides.
at::Tensor empty_host_like(const at::Tensor& like) {
  const auto options = at::TensorOptions().dtype(like.scalar_type()).device(at::kCPU);
  if (like.is_non_overlapping_and_dense()) return at::empty_strided(like.sizes(), like.strides(), options);
  return at::empty(like.sizes(), options);
}

// A host tensor with `target`'s dtype, conjugate and negative bits that holds the values of `source`.
at::Tensor converted_on_host(const at::Tensor& source, const at::Tensor& target) {
  auto result = empty_host_like(target);
  result._set_conj(target.is_conj());
  result._set_neg(target.is_neg());
  result.copy_(source);
  return result;
}

std::shared_ptr<void> keep(const at::Tensor& tensor) { return std::make_shared<at::Tensor>(tensor); }

// Pinned memory is given back only when the streams that used it have got that far.
void mark_pinned_use(const at::Tensor& tensor, const Stream& stream) {
  host_allocator().record_event(const_cast<void*>(tensor.const_data_ptr()), tensor.storage().data_ptr().get_context(), to_c10(stream));
}

void copy_host_to_device(const at::Tensor& source, const at::Tensor& destination, bool non_blocking) {
  Stream& stream = stream_of(destination);
  if (!same_representation(source, destination)) {
    const auto converted = converted_on_host(source, destination);
    return submit_tensor_copy(stream, destination, converted, keep(converted));
  }
  if (non_blocking && is_pinned(source.const_data_ptr())) {
    submit_tensor_copy(stream, destination, source);
    return mark_pinned_use(source, stream);
  }
  if (source.nbytes() <= kStagingBytes && !stream.query()) {
    const auto staged = converted_on_host(source, destination);
    return submit_tensor_copy(stream, destination, staged, keep(staged));
  }
  submit_tensor_copy(stream, destination, source);
  synchronize(stream);
}

void copy_device_to_host(const at::Tensor& source, const at::Tensor& destination, bool non_blocking) {
  Stream& stream = stream_of(source);
  if (!same_representation(source, destination)) {
    auto staged = empty_host_like(source);
    staged._set_conj(source.is_conj());
    staged._set_neg(source.is_neg());
    submit_tensor_copy(stream, staged, source);
    synchronize(stream);
    destination.copy_(staged);
    return;
  }
  submit_tensor_copy(stream, destination, source);
  if (non_blocking && is_pinned(destination.const_data_ptr())) return mark_pinned_use(destination, stream);
  synchronize(stream);
}

void copy_on_device(const at::Tensor& source, const at::Tensor& destination) {
  at::assert_no_internal_overlap(destination);
  at::assert_no_partial_overlap(destination, source);
  const bool moves_bytes = same_representation(source, destination) && source.is_contiguous() && destination.is_contiguous();
  if (!moves_bytes && eager_copy(destination, source)) return;
  submit_tensor_copy(stream_of(destination), destination, source);
}

// `later` runs what is queued from now on after what is queued in `earlier` now.
void order_after(Stream& earlier, Stream& later) {
  translated([&] {
    Event mark(/*timing=*/false);
    mark.record(earlier);
    mark.block(later);
  });
}

// The copy runs on the source's stream. It starts after what the destination's stream has queued so far, and what that stream queues
// from now on runs after it.
void copy_between_devices(const at::Tensor& source, const at::Tensor& destination) {
  at::Tensor converted = source;
  if (!same_representation(source, destination)) {
    const DeviceScope scope(source.device().index());
    converted = at::empty(source.sizes(), destination.options().device(source.device()));
    converted._set_conj(destination.is_conj());
    converted._set_neg(destination.is_neg());
    copy_on_device(source, converted);
  }
  Stream& from = stream_of(source);
  Stream& to = stream_of(destination);
  order_after(to, from);
  submit_tensor_copy(from, destination, converted);
  order_after(from, to);
}

}  // namespace

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& destination, bool non_blocking) {
  ensure_initialized();
  if (source.is_same(destination)) return destination;
  const auto expanded = source.sizes() == destination.sizes() ? source : source.expand(destination.sizes());
  if (destination.numel() == 0) return destination;
  const bool from_device = source.device().type() == kNeuron;
  const bool to_device = destination.device().type() == kNeuron;
  TORCH_CHECK(from_device || source.is_cpu(), "copy to neuron from ", source.device(), ": only CPU and neuron tensors can be copied");
  TORCH_CHECK(to_device || destination.is_cpu(), "copy from neuron to ", destination.device(),
              ": only CPU and neuron tensors can be copied");
  if (!from_device) {
    copy_host_to_device(expanded, destination, non_blocking);
  } else if (!to_device) {
    copy_device_to_host(expanded, destination, non_blocking);
  } else if (source.device() == destination.device()) {
    copy_on_device(expanded, destination);
  } else {
    copy_between_devices(expanded, destination);
  }
  return destination;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& destination) {
  destination.resize_(source.sizes());
  return copy_from(source, destination, /*non_blocking=*/false);
}

at::Scalar read_scalar(const at::Tensor& tensor) {
  ensure_initialized();
  at::Scalar value;
  AT_DISPATCH_V2(tensor.scalar_type(), "item", AT_WRAP([&] {
                   scalar_t element;
                   read_device(stream_of(tensor), &element, tensor.const_data_ptr(), sizeof(element));
                   value = at::Scalar(element);
                 }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), AT_EXPAND(AT_FLOAT8_TYPES), at::kComplexHalf,
                 at::kHalf, at::kBool, at::kBFloat16);
  return value;
}

void copy_within_device(void* destination, const void* source, std::size_t bytes, c10::DeviceIndex index) {
  submit_copy(current_stream(index), destination, source, bytes);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", read_scalar);
}

// Without these, copying a view with a conjugate or negative bit goes to ATen's fallback for the bit, which clones the tensor, which
// copies it, which comes back here: a stack overflow. copy_from takes the bits itself.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace neuron::torch_face
