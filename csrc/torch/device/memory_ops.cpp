// Operators that make tensors and change what memory they look at; none of them computes.
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "torch/device/device.h"
#include "torch/device/device_allocator.h"

namespace neuron::torch_face {

namespace {

using OptionalDtype = std::optional<at::ScalarType>;
using OptionalLayout = std::optional<at::Layout>;
using OptionalDevice = std::optional<at::Device>;

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

c10::DeviceIndex checked_index(OptionalDtype, OptionalLayout layout, OptionalDevice device, std::optional<bool> pin_memory) {
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided, "neuron tensors are strided, got layout ", *layout);
  TORCH_CHECK(!pin_memory.value_or(false), "only CPU tensors can be pinned, not tensors on neuron");
  return device ? device_or_current(device->index()) : current_device();
}

// torch.use_deterministic_algorithms(True) promises that uninitialised memory has known contents.
bool fills_new_memory() {
  const auto& context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

at::Tensor known_contents(at::TensorBase base) {
  at::Tensor result(std::move(base));
  if (fills_new_memory()) [[unlikely]]
    at::native::fill_empty_deterministic_(result);
  return result;
}

at::Tensor empty(at::IntArrayRef size, OptionalDtype dtype, OptionalLayout layout, OptionalDevice device, std::optional<bool> pin_memory,
                 std::optional<at::MemoryFormat> memory_format) {
  const DeviceScope scope(checked_index(dtype, layout, device, pin_memory));
  return known_contents(at::detail::empty_generic(size, &device_allocator(), kKeys, c10::dtype_or_default(dtype), memory_format));
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, OptionalDtype dtype, OptionalLayout layout, OptionalDevice device,
                         std::optional<bool> pin_memory) {
  const DeviceScope scope(checked_index(dtype, layout, device, pin_memory));
  return known_contents(at::detail::empty_strided_generic(size, stride, &device_allocator(), kKeys, c10::dtype_or_default(dtype)));
}

// A zero that has no memory: forward mode's tangent of a constant. Dispatch key ZeroTensor answers for it before most of our kernels.
at::Tensor zero_without_memory(at::IntArrayRef size, OptionalDtype dtype, OptionalLayout layout, OptionalDevice device,
                               std::optional<bool> pin_memory) {
  at::native::ZeroTensorAllocator nothing(at::Device(at::kPrivateUse1, checked_index(dtype, layout, device, pin_memory)));
  const auto keys = kKeys | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor);
  return at::Tensor(at::detail::empty_generic(size, &nothing, keys, c10::dtype_or_default(dtype), std::nullopt));
}

// Gives the tensor's storage the bytes that its sizes, strides and offset need, keeping its contents.
void grow_storage(const at::Tensor& self) {
  if (self.numel() == 0) return;
  const auto needed = at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.itemsize(), self.storage_offset());
  if (needed > self.storage().nbytes()) at::native::resize_bytes_nocuda(self.storage(), needed);
}

// Not at::native::resize_, which grows storages by a copy of the host that runs at once and reads device memory.
const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> memory_format) {
  auto* impl = self.unsafeGetTensorImpl();
  const auto old_bytes = self.storage().nbytes();
  if (self.sizes() != size) {
    impl->set_sizes_contiguous(size);
    grow_storage(self);
  }
  if (memory_format) {
    TORCH_CHECK(*memory_format != at::MemoryFormat::Preserve,
                "resize_: memory format Preserve is not supported, as there is nothing to preserve");
    impl->empty_tensor_restride(*memory_format);
  }
  if (fills_new_memory()) [[unlikely]]
    at::native::fill_resize_deterministic_(self, static_cast<int64_t>(old_bytes));
  return self;
}

at::Tensor& set_storage_with_sizes(at::Tensor& self, at::Storage source, int64_t storage_offset, at::IntArrayRef size,
                                   at::IntArrayRef stride) {
  at::native::checkSetStorage(self, source, storage_offset, size, stride);
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(storage_offset);
  if (stride.data()) {
    impl->set_sizes_and_strides(size, stride);
  } else {
    impl->set_sizes_contiguous(size);
  }
  grow_storage(self);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  const auto count = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage_with_sizes(self, std::move(source), 0, {count}, {});
}

at::Tensor& set_nothing(at::Tensor& self) {
  const DeviceScope scope(self.device().index());
  at::Storage storage(at::Storage::use_byte_size_t(), 0, device_allocator().allocate(0), &device_allocator(), /*resizable=*/true);
  return set_storage_with_sizes(self, std::move(storage), 0, {0}, {});
}

void record_stream(at::Tensor& self, at::Stream stream) { device_allocator().recordStream(self.storage().data_ptr(), stream); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_efficientzerotensor", zero_without_memory);
  m.impl("resize_", resize);
  m.impl("set_.source_Storage", set_storage);
  m.impl("set_.source_Storage_storage_offset", set_storage_with_sizes);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("set_", set_nothing);
  m.impl("is_set_to", at::native::is_set_to);
  m.impl("record_stream", record_stream);
  // The views that ATen registers per device; all others are composites of as_strided.
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", static_cast<at::Tensor (*)(const at::Tensor&, at::IntArrayRef)>(at::native::view));
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
}

}  // namespace neuron::torch_face
