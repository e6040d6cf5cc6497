#include "torch/device/transfer.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/from_blob.h>

#include <cstring>
#include <utility>

#include "core/arena.h"
#include "torch/device/error.h"
#include "torch/device/streams.h"

namespace neuron::torch_face {

namespace {

// One thread copies at about 8 bytes a nanosecond on the machines this was tried on; strided or converting copies take about four times
// as long. The runtime only asks whether a command is small enough to run at once.
constexpr std::uint64_t kBytesPerNanosecond = 8;
constexpr std::uint64_t kStridedFactor = 4;

// A tensor's memory and how to read it, without the tensor: commands must not keep device tensors alive, as their memory is managed in
// the order of the stream.
struct View {
  void* data;
  std::vector<std::int64_t> sizes, strides;
  at::ScalarType dtype;
  bool conj, neg;

  explicit View(const at::Tensor& tensor)
      : data(const_cast<void*>(tensor.const_data_ptr())),
        sizes(tensor.sizes().vec()),
        strides(tensor.strides().vec()),
        dtype(tensor.scalar_type()),
        conj(tensor.is_conj()),
        neg(tensor.is_neg()) {}

  // The memory as a CPU tensor, which is legitimate inside a command only.
  at::Tensor tensor() const {
    auto result = at::from_blob(data, sizes, strides, at::TensorOptions().dtype(dtype));
    result._set_conj(conj);
    result._set_neg(neg);
    return result;
  }
};

std::size_t span_bytes(const at::Tensor& tensor) {
  return at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
}

MemoryRange range_of(const at::Tensor& tensor) { return {tensor.const_data_ptr(), span_bytes(tensor)}; }

bool same_dense_layout(const at::Tensor& a, const at::Tensor& b) {
  return (a.is_contiguous() && b.is_contiguous()) || (a.strides() == b.strides() && a.is_non_overlapping_and_dense());
}

void submit(Stream& stream, HostTask task) {
  translated([&] { stream.submit(std::move(task)); });
}

}  // namespace

bool same_representation(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

void submit_copy(Stream& stream, void* destination, const void* source, std::size_t bytes, std::shared_ptr<void> keep_alive) {
  if (bytes == 0 || destination == source) return;
  submit(stream, {.name = "copy",
                  .reads = {{source, bytes}},
                  .writes = {{destination, bytes}},
                  .run = [=, keep = std::move(keep_alive)] { std::memmove(destination, source, bytes); },
                  .work = bytes / kBytesPerNanosecond});
}

void submit_tensor_copy(Stream& stream, const at::Tensor& destination, const at::Tensor& source, std::shared_ptr<void> keep_alive) {
  if (destination.numel() == 0) return;
  if (same_representation(destination, source) && same_dense_layout(destination, source)) {
    return submit_copy(stream, destination.mutable_data_ptr(), source.const_data_ptr(), destination.nbytes(), std::move(keep_alive));
  }
  auto run = [to = View(destination), from = View(source), keep = std::move(keep_alive)] {
    const at::AutoDispatchBelowAutograd below_autograd;
    to.tensor().copy_(from.tensor());
  };
  submit(stream, {.name = "copy_strided",
                  .reads = {range_of(source)},
                  .writes = {range_of(destination)},
                  .run = std::move(run),
                  .work = kStridedFactor * destination.nbytes() / kBytesPerNanosecond});
}

void read_device(Stream& stream, void* destination, const void* source, std::size_t bytes) {
  // With the stream empty nobody writes there: a command would only cost its submission.
  synchronize(stream);
  const MemoryAccess access;
  std::memcpy(destination, source, bytes);
}

}  // namespace neuron::torch_face
