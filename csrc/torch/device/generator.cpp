#include "torch/device/generator.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/TensorBase.h>

#include <cstring>
#include <mutex>
#include <vector>

#include "torch/device/device.h"

namespace neuron::torch_face {

namespace {

constexpr std::size_t kStateBytes = 2 * sizeof(std::uint64_t);

}  // namespace

// Has its own lock, as several generators may share one state; PyTorch holds the generator's mutex_ around its calls.
struct Generator::State {
  mutable std::mutex mutex;
  std::uint64_t seed = c10::default_rng_seed_val;
  std::uint64_t offset = 0;
};

Generator::Generator(c10::DeviceIndex index) : Generator(index, std::make_shared<State>()) {}

Generator::Generator(c10::DeviceIndex index, std::shared_ptr<State> state)
    : GeneratorImpl({kNeuron, index}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)), state_(std::move(state)) {}

Generator::~Generator() = default;

std::pair<std::uint64_t, std::uint64_t> Generator::reserve(std::uint64_t blocks) {
  const std::lock_guard lock(state_->mutex);
  const auto first = state_->offset;
  state_->offset += blocks;
  return {state_->seed, first};
}

void Generator::set_current_seed(std::uint64_t seed) {
  const std::lock_guard lock(state_->mutex);
  state_->seed = seed;
  state_->offset = 0;
}

void Generator::set_offset(std::uint64_t offset) {
  const std::lock_guard lock(state_->mutex);
  state_->offset = offset;
}

std::uint64_t Generator::get_offset() const {
  const std::lock_guard lock(state_->mutex);
  return state_->offset;
}

std::uint64_t Generator::current_seed() const {
  const std::lock_guard lock(state_->mutex);
  return state_->seed;
}

std::uint64_t Generator::seed() {
  const auto seed = c10::detail::getNonDeterministicRandom(/*is_cuda=*/true);
  set_current_seed(seed);
  return seed;
}

void Generator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == kStateBytes, "RNG state of a neuron generator has ", kStateBytes, " bytes (seed and offset), got ",
              state.numel());
  std::uint64_t words[2];
  std::memcpy(words, state.data(), kStateBytes);
  const std::lock_guard lock(state_->mutex);
  state_->seed = words[0];
  state_->offset = words[1];
}

c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  auto state = at::detail::empty_cpu({kStateBytes}, c10::kByte);
  std::uint64_t words[2];
  {
    const std::lock_guard lock(state_->mutex);
    words[0] = state_->seed;
    words[1] = state_->offset;
  }
  std::memcpy(state.mutable_data_ptr(), words, kStateBytes);
  return state.getIntrusivePtr();
}

void Generator::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& generator) {
  const auto* other = dynamic_cast<const Generator*>(generator.get());
  TORCH_CHECK(other, "graphsafe_set_state: expected a generator of a neuron device, got one of ", generator->device());
  state_ = other->state_;
}

c10::intrusive_ptr<c10::GeneratorImpl> Generator::graphsafe_get_state() const {
  return c10::intrusive_ptr<Generator>::reclaim(std::unique_ptr<Generator>(new Generator(device().index(), state_)).release());
}

c10::DeviceType Generator::device_type() { return kNeuron; }

Generator* Generator::clone_impl() const {
  auto copy = std::make_unique<Generator>(device().index());
  const std::lock_guard lock(state_->mutex);
  copy->state_->seed = state_->seed;
  copy->state_->offset = state_->offset;
  return copy.release();
}

at::Generator make_generator(c10::DeviceIndex index) { return at::make_generator<Generator>(index); }

const at::Generator& default_generator(c10::DeviceIndex index) {
  // Leaked: Python objects made from them may outlive static destruction.
  static const auto& generators = *[] {
    auto all = std::make_unique<std::vector<at::Generator>>();
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) all->push_back(make_generator(device));
    return all.release();
  }();
  return generators[static_cast<std::size_t>(index)];
}

}  // namespace neuron::torch_face
