#include "torch/eager/miss.h"

#include <ATen/EmptyTensor.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "torch/device/gil.h"
#include "torch/eager/call_reader.h"
#include "torch/eager/resolve.h"

namespace neuron::torch_face {
namespace {

namespace py = pybind11;
using Arguments = std::span<const c10::IValue>;

std::atomic<std::uint64_t> miss_count{0};  // counters on their own: relaxed
std::atomic<std::uint64_t> compile_nanoseconds{0};

// One compilation that some thread is doing now.
struct InFlight {
  const NativeOp* op;
  std::vector<std::uint64_t> key;
  std::thread::id thread;
};

struct Compilations {
  std::mutex mutex;
  std::condition_variable ended;
  std::list<InFlight> running;
};

Compilations& compilations() {
  static auto* instance = new Compilations;
  return *instance;
}

// Owns the compilation of a key, or has waited for the thread that did.
class CompilationTurn {
 public:
  CompilationTurn(const NativeOp& op, std::span<const std::uint64_t> key) {
    const GilRelease release;  // the thread that compiles needs the GIL
    std::unique_lock lock(compilations().mutex);
    auto same = [&](const InFlight& other) { return other.op == &op && std::ranges::equal(other.key, key); };
    auto& running = compilations().running;
    const auto other = std::ranges::find_if(running, same);
    if (other == running.end()) {
      running.push_front({&op, {key.begin(), key.end()}, std::this_thread::get_id()});
      mine_ = running.begin();
      owns_ = true;
      return;
    }
    TORCH_CHECK(other->thread != std::this_thread::get_id(), "compiling ", c10::toString(op.handle().operator_name()),
                " calls the same op with the same arguments on device neuron");
    compilations().ended.wait(lock, [&] { return std::ranges::none_of(running, same); });
  }

  ~CompilationTurn() {
    if (!owns_) return;
    std::lock_guard lock(compilations().mutex);
    compilations().running.erase(mine_);
    compilations().ended.notify_all();
  }

  CompilationTurn(const CompilationTurn&) = delete;
  CompilationTurn& operator=(const CompilationTurn&) = delete;

  bool owns() const { return owns_; }

 private:
  std::list<InFlight>::iterator mine_;
  bool owns_ = false;
};

// Lowerings run torch code on the side. They see no autograd, autocast or torch-function mode of the program that called the op.
class PlainTorch {
 public:
  PlainTorch() : functions_(at::impl::PythonTorchFunctionTLS::get_disabled_state()) {
    at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED);
  }
  ~PlainTorch() { at::impl::PythonTorchFunctionTLS::set_disabled_state(functions_); }
  PlainTorch(const PlainTorch&) = delete;
  PlainTorch& operator=(const PlainTorch&) = delete;

 private:
  const c10::impl::ForceDispatchKeyGuard keys_{c10::default_included_set, c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset};
  const at::impl::TorchFunctionDisabledState functions_;
};

// Runs `body` with what Python raises thrown as PyTorch's own carrier, which every caller up to the autograd engine restores.
template <typename Body>
auto with_python_errors(Body body) {
  try {
    return body();
  } catch (py::error_already_set& error) {
    error.restore();
    python_error carrier;
    carrier.persist();
    throw carrier;
  }
}

// A number that was written in the program (the 1 of a + 1) is a 0-d CPU tensor for the dispatcher and a number again for Python.
py::object tensor_to_python(const at::Tensor& tensor) {
  if (!tensor.defined()) return py::none();
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return torch::jit::toPyObject(c10::IValue(tensor.item()));
  return py::cast(tensor);
}

py::object to_python(const c10::IValue& value, c10::TypeKind declared) {
  if (value.isNone()) return py::none();
  if (value.isTensor()) return tensor_to_python(value.toTensor());
  if (value.isList()) {
    py::list list;
    for (const c10::IValue& element : value.toListRef()) list.append(to_python(element, c10::TypeKind::AnyType));
    return list;
  }
  switch (declared) {
    case c10::TypeKind::ScalarTypeType:
      return py::cast(value.toScalarType());
    case c10::TypeKind::LayoutType:
      return py::cast(value.toLayout());
    case c10::TypeKind::MemoryFormatType:
      return py::cast(value.toMemoryFormat());
    default:
      return torch::jit::toPyObject(value);
  }
}

c10::TypeKind declared_kind(const c10::Argument& argument) {
  c10::TypePtr type = argument.real_type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type->kind();
}

std::shared_ptr<const EagerProgram> compile_in_python(const NativeOp& op, Arguments arguments) {
  const py::gil_scoped_acquire gil;
  const PlainTorch plain;
  return with_python_errors([&]() -> std::shared_ptr<const EagerProgram> {
    py::list values;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      values.append(to_python(arguments[i], declared_kind(op.handle().schema().arguments()[i])));
    auto program = py::module_::import("torch_neuronx.eager").attr("compile_call")(c10::toString(op.handle().operator_name()), values);
    if (program.is_none()) return nullptr;
    return program.cast<std::shared_ptr<EagerProgram>>();
  });
}

std::vector<std::uint64_t> key_of(const Call& call) { return {call.key.span().begin(), call.key.span().end()}; }

// What compiling may change of a call: it resizes out= arguments.
struct MissedCall {
  explicit MissedCall(const Call& call) : key(key_of(call)), hash(call.hash) {
    for (const Position& position : call.positions.span()) {
      if (position.written && position.tensor != nullptr) empty.push_back(position.tensor->numel() == 0);
    }
  }

  // Whether `resized` is this call with other sizes for tensors that were empty: PyTorch's factories make their results so, and without
  // a warning, so that a launch may do what compiling did. Any other resizing warns each time.
  bool written_empty(const Call& resized) const {
    return !std::ranges::equal(key, resized.key.span()) && std::ranges::all_of(empty, std::identity());
  }

  std::vector<std::uint64_t> key;
  std::uint64_t hash;
  std::vector<bool> empty;
};

void resize_to(OutputPlan& output, const Position& argument) {
  const at::Tensor& tensor = *argument.tensor;
  output.sizes = tensor.sizes().vec();
  output.strides = tensor.strides().vec();
  output.bytes = at::detail::computeStorageNbytes(output.sizes, output.strides, tensor.itemsize());
  output.resizes = true;
}

}  // namespace

void compile_missing(NativeOp& op, const Call& call, const torch::jit::Stack& stack) {
  MissedCall missed(call);
  const CompilationTurn turn(op, missed.key);
  if (!turn.owns()) return;  // another thread has just compiled it, or failed to; the caller looks again
  const Arguments arguments(stack.data() + stack.size() - op.plan().arguments.size(), op.plan().arguments.size());
  miss_count.fetch_add(1, std::memory_order_relaxed);
  const auto start = std::chrono::steady_clock::now();
  const auto program = compile_in_python(op, arguments);
  const auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start);
  compile_nanoseconds.fetch_add(static_cast<std::uint64_t>(elapsed.count()), std::memory_order_relaxed);
  Call compiled;
  read_call(compiled, op.plan(), arguments);
  auto place = [&](const Place& at) { return position_of(op.plan(), arguments, at.argument, at.element); };
  auto plan = program ? resolve(*program, compiled, c10::toString(op.handle().operator_name()), place) : nullptr;
  TORCH_CHECK(!plan || plan->returns.size() == op.handle().schema().returns().size(), "program of ",
              c10::toString(op.handle().operator_name()), ": the number of returns is not the schema's");
  if (plan && missed.written_empty(compiled)) {
    auto resizing = std::make_unique<LaunchPlan>(*plan);
    for (OutputPlan& output : resizing->outputs) {
      if (output.position >= 0) resize_to(output, compiled.positions[output.position]);
    }
    op.cache().insert(std::make_unique<CacheEntry>(std::move(missed.key), missed.hash, std::move(resizing)));
  }
  op.cache().insert(std::make_unique<CacheEntry>(key_of(compiled), compiled.hash, std::move(plan)));
}

MissStats miss_stats() {
  return {miss_count.load(std::memory_order_relaxed), static_cast<double>(compile_nanoseconds.load(std::memory_order_relaxed)) * 1e-9};
}

}  // namespace neuron::torch_face
