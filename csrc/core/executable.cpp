#include "core/executable.h"

#include <array>
#include <atomic>
#include <stdexcept>
#include <utility>

#include "core/executable_contents.h"
#include "core/parallel.h"

namespace neuron {
namespace {

void serial_for(std::int64_t range, std::int64_t, void (*body)(void*, std::int64_t, std::int64_t), void* context) {
  body(context, 0, range);
}

// Relaxed: installed at import, before any launch.
std::atomic<ParallelFor> installed_parallel_for = serial_for;

// An array whose length is known at run time: on the stack if it is short.
template <typename T>
class ShortArray {
 public:
  explicit ShortArray(std::size_t size) {
    if (size > kInPlace) long_.resize(size);
    data_ = size > kInPlace ? long_.data() : in_place_;
  }
  T& operator[](std::size_t i) { return data_[i]; }
  T* data() { return data_; }

 private:
  static constexpr std::size_t kInPlace = 24;
  T in_place_[kInPlace];
  std::vector<T> long_;
  T* data_;
};

// The memories of one launch.
struct Memories {
  void* const* inputs;
  void* const* outputs;
  char* scratch;
  char* constants;

  char* resolve(const BufferRef& ref) const {
    switch (ref.space) {
      case Space::kInput:
        return static_cast<char*>(inputs[ref.index]) + ref.offset;
      case Space::kOutput:
        return static_cast<char*>(outputs[ref.index]) + ref.offset;
      case Space::kScratch:
        return scratch + ref.offset;
      case Space::kConstant:
        break;
    }
    return constants + ref.offset;
  }
};

// One kernel call, spread over threads. The first failure is kept.
struct ParallelCall {
  const KernelStep& step;
  char* const* buffers;
  const std::uint64_t* scalars;
  std::atomic<std::int32_t> status = 0;

  static void part(void* context, std::int64_t begin, std::int64_t end) {
    auto& call = *static_cast<ParallelCall*>(context);
    const std::int32_t status = call.step.function(call.buffers, call.step.params.data(), call.scalars, begin, end);
    std::int32_t none = 0;
    if (status != 0) call.status.compare_exchange_strong(none, status, std::memory_order_relaxed);
  }
};

std::int32_t run_kernel(const KernelStep& step, const Memories& memories, const std::uint64_t* scalars) {
  ShortArray<char*> buffers(step.buffers.size());
  for (std::size_t i = 0; i < step.buffers.size(); ++i) buffers[i] = memories.resolve(step.buffers[i]);
  if (step.range <= step.grain) return step.function(buffers.data(), step.params.data(), scalars, 0, step.range);
  ParallelCall call{step, buffers.data(), scalars};
  parallel_for()(step.range, step.grain, ParallelCall::part, &call);
  return call.status.load(std::memory_order_relaxed);
}

void run_library(const LibraryStep& step, const Memories& memories, std::span<const std::uint64_t> scalars, TensorLists& lists) {
  ShortArray<std::uint64_t> slots(step.scalars.size());
  for (std::size_t i = 0; i < step.scalars.size(); ++i) slots[i] = scalars[step.scalars[i]];
  auto tensors = lists.take(step.tensors);
  for (std::size_t i = 0; i < tensors->size(); ++i) {
    if ((*tensors)[i].dtype != DType::kAbsent) (*tensors)[i].data = memories.resolve(step.buffers[i]);
  }
  step.function({*tensors, step.ints, step.floats, {slots.data(), step.scalars.size()}});
  lists.give_back(std::move(tensors));
}

}  // namespace

void set_parallel_for(ParallelFor parallel_for) { installed_parallel_for.store(parallel_for, std::memory_order_relaxed); }

ParallelFor parallel_for() noexcept { return installed_parallel_for.load(std::memory_order_relaxed); }

Executable::~Executable() = default;

const std::string& Executable::name() const { return contents_->name; }
const std::string& Executable::signature() const { return contents_->signature; }
std::span<const std::uint64_t> Executable::input_bytes() const { return contents_->input_bytes; }
std::span<const std::uint64_t> Executable::output_bytes() const { return contents_->output_bytes; }
std::span<const std::int32_t> Executable::donations() const { return contents_->donations; }
std::uint32_t Executable::scalar_count() const { return contents_->scalar_count; }
std::uint64_t Executable::scratch_bytes() const { return contents_->scratch_bytes; }
std::uint64_t Executable::work() const { return contents_->work; }
bool Executable::parallel() const { return contents_->parallel; }
std::span<const std::variant<KernelStep, LibraryStep>> Executable::steps() const { return contents_->steps; }

void Executable::run(std::span<void* const> buffers, void* scratch, std::span<const std::uint64_t> scalars) const {
  const Contents& contents = *contents_;
  const Memories memories{buffers.data(), buffers.data() + contents.input_bytes.size(), static_cast<char*>(scratch),
                          reinterpret_cast<char*>(contents.constants.get())};
  for (std::size_t i = 0; i < contents.steps.size(); ++i) {
    if (const auto* kernel = std::get_if<KernelStep>(&contents.steps[i])) {
      const std::int32_t status = run_kernel(*kernel, memories, scalars.data());
      if (status == 0) continue;
      const bool known = status > 0 && static_cast<std::size_t>(status) <= contents.messages.size();
      throw std::runtime_error(known ? contents.messages[status - 1]
                                     : kernel->name + " returned the unknown status " + std::to_string(status));
    }
    run_library(std::get<LibraryStep>(contents.steps[i]), memories, scalars, *contents.tensor_lists[i]);
  }
}

}  // namespace neuron
