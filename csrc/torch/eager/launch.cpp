#include "torch/eager/launch.h"

#include <ATen/Parallel.h>
#include <ATen/native/Resize.h>

#include <bit>
#include <optional>
#include <utility>

#include "torch/device/device.h"
#include "torch/device/device_allocator.h"
#include "torch/device/error.h"
#include "torch/device/generator.h"
#include "torch/device/streams.h"

namespace neuron::torch_face {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor allocate(const OutputPlan& output) {
  auto& allocator = device_allocator();
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), output.bytes, allocator.allocate(output.bytes),
                                                       &allocator, /*resizable=*/true);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), kKeys, output.dtype);
  if (output.contiguous) {
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(output.sizes);
  } else {
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(output.sizes, output.strides);
  }
  return tensor;
}

// The address of an empty out= argument once it has the size that its program writes.
void* resize_argument(const at::Tensor& tensor, const OutputPlan& output) {
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(output.sizes, output.strides);
  const std::size_t needed = output.bytes + tensor.storage_offset() * tensor.itemsize();
  if (needed > tensor.storage().nbytes()) at::native::resize_bytes_nocuda(tensor.storage(), needed);
  return tensor.mutable_data_ptr();
}

std::uint64_t slot_bits(const SlotPlan& slot, const Call& call, const std::pair<std::uint64_t, std::uint64_t>& seed_and_offset) {
  if (slot.kind == ScalarSource::kSeed) return seed_and_offset.first;
  if (slot.kind == ScalarSource::kOffset) return seed_and_offset.second;
  const std::uint64_t bits = call.positions[slot.position].scalar.bits;
  switch (slot.conversion) {
    case SlotPlan::kIntToDouble:
      return std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<std::int64_t>(bits)));
    case SlotPlan::kDoubleToInt:
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(std::bit_cast<double>(bits)));
    case SlotPlan::kBits:
      return bits;
  }
  return bits;
}

std::pair<std::uint64_t, std::uint64_t> reserve_random(const Call& call, std::uint64_t draws) {
  const at::Generator generator = call.generator ? call.generator->toGenerator() : default_generator(call.device);
  return at::check_generator<Generator>(generator)->reserve(draws);
}

}  // namespace

void launch(const LaunchPlan& plan, const Call& call, const Origin* origin, Outputs& outputs) {
  std::optional<DeviceScope> scope;
  if (call.device != current_device()) scope.emplace(call.device);
  c10::SmallVector<void*, 16> buffers;
  for (std::uint32_t position : plan.inputs) buffers.push_back(call.positions[position].data);
  for (const OutputPlan& output : plan.outputs) {
    if (output.position >= 0) {
      outputs.emplace_back();
      const Position& position = call.positions[output.position];
      buffers.push_back(output.resizes ? resize_argument(*position.tensor, output) : position.data);
    } else {
      outputs.push_back(allocate(output));
      buffers.push_back(outputs.back().unsafeGetTensorImpl()->unsafe_storage().mutable_data());
    }
  }
  std::pair<std::uint64_t, std::uint64_t> seed_and_offset{};
  if (plan.rng_draws > 0) seed_and_offset = reserve_random(call, plan.rng_draws);
  c10::SmallVector<std::uint64_t, 8> scalars;
  for (const SlotPlan& slot : plan.slots) scalars.push_back(slot_bits(slot, call, seed_and_offset));
  const int threads = plan.executable->parallel() ? at::get_num_threads() : 0;
  translated([&] { current_stream(call.device).launch(plan.executable, buffers, scalars, origin, threads); });
}

}  // namespace neuron::torch_face
