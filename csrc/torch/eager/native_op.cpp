#include "torch/eager/native_op.h"

#include <ATen/Parallel.h>
#include <ATen/native/Resize.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "torch/device/device.h"
#include "torch/device/device_allocator.h"
#include "torch/device/error.h"
#include "torch/device/generator.h"
#include "torch/device/streams.h"
#include "torch/eager/call_reader.h"
#include "torch/eager/fallback.h"
#include "torch/eager/miss.h"
#include "torch/eager/origin.h"

namespace neuron::torch_face {
namespace {

using torch::jit::Stack;

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

// `x[index]` with an index on the CPU: PyTorch moves it to the device of x.
void move_index_tensors(const CallPlan& plan, c10::IValue* arguments) {
  for (int index : plan.index_lists) {
    if (arguments[index].isNone()) continue;
    auto on_host = [](const c10::IValue& item) { return item.isTensor() && item.toTensor().defined() && item.toTensor().is_cpu(); };
    const auto items = arguments[index].toListRef();
    if (std::ranges::none_of(items, on_host)) continue;
    c10::List<std::optional<at::Tensor>> moved;
    for (const c10::IValue& item : items) {
      moved.push_back(on_host(item) ? item.toTensor().to(arguments[0].toTensor().device()) : item.toOptional<at::Tensor>());
    }
    arguments[index] = std::move(moved);
  }
}

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

const c10::IValue& at_place(const c10::IValue* arguments, const Place& place) {
  const c10::IValue& argument = arguments[place.argument];
  return place.element < 0 ? argument : argument.toListRef()[place.element];
}

c10::IValue make_return(const ReturnSpec& spec, Outputs& outputs, const c10::IValue* arguments) {
  switch (spec.kind) {
    case ReturnSpec::kOutput:
      return outputs[spec.output];
    case ReturnSpec::kArgument:
      return at_place(arguments, spec.place);
    case ReturnSpec::kNone:
      return at::Tensor();
    case ReturnSpec::kList:
      break;
  }
  c10::List<at::Tensor> list;
  list.reserve(spec.items.size());
  for (const ReturnSpec& item : spec.items) list.push_back(make_return(item, outputs, arguments).toTensor());
  return list;
}

void replace_arguments(const LaunchPlan& plan, Outputs& outputs, std::size_t argument_count, Stack* stack) {
  const c10::IValue* arguments = stack->data() + stack->size() - argument_count;
  if (plan.returns.size() == 1) {
    c10::IValue result = make_return(plan.returns[0], outputs, arguments);
    torch::jit::drop(*stack, argument_count);
    stack->push_back(std::move(result));
    return;
  }
  c10::SmallVector<c10::IValue, 4> results;
  for (const ReturnSpec& spec : plan.returns) results.push_back(make_return(spec, outputs, arguments));
  torch::jit::drop(*stack, argument_count);
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

}  // namespace

NativeOp::NativeOp(c10::OperatorHandle handle, CallPlan plan) : handle_(handle), plan_(std::move(plan)) {}

void NativeOp::call(Stack* stack) {
  if (!call_natively(stack)) fall_back(handle_, stack, plan_.hidden_writes);
}

bool NativeOp::call_natively(Stack* stack) {
  ensure_initialized();
  const std::size_t count = plan_.arguments.size();
  if (!plan_.index_lists.empty()) move_index_tensors(plan_, stack->data() + stack->size() - count);
  std::optional<Origin> origin;
  if (origins_enabled()) origin = Origin{python_line()};
  Call& call = this_call();
  while (true) {
    read_call(call, plan_, {stack->data() + stack->size() - count, count});
    {
      const ReadSection section;
      if (const CacheEntry* entry = cache_.find(call.key.span(), call.hash)) {
        if (entry->plan) {
          Outputs outputs;
          launch(*entry->plan, call, origin ? &*origin : nullptr, outputs);
          replace_arguments(*entry->plan, outputs, count, stack);
          return true;
        }
        declined_.fetch_add(1, std::memory_order_relaxed);
        return false;
      }
    }
    compile_missing(*this, call, *stack);
  }
}

void NativeOp::launch(const LaunchPlan& plan, const Call& call, const Origin* origin, Outputs& outputs) {
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
  launched_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace neuron::torch_face
