// The device's random generator: a counter-based Philox stream, described by a seed and an offset.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace neuron::torch_face {

class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex index);
  ~Generator() override;

  // Claims `blocks` counter blocks (of 4 × 32 random bits) and returns the seed and the first claimed block. Thread-safe, and the only
  // way in which random ops draw: the same seed and the same sequence of claims give the same numbers.
  std::pair<std::uint64_t, std::uint64_t> reserve(std::uint64_t blocks);

  // Also starts the stream over: the offset becomes 0.
  void set_current_seed(std::uint64_t seed) override;
  void set_offset(std::uint64_t offset) override;
  std::uint64_t get_offset() const override;
  std::uint64_t current_seed() const override;
  // Seeds from the system's entropy and returns the seed.
  std::uint64_t seed() override;
  // The state is a CPU tensor of 16 bytes: seed and offset, each 64 bits in the machine's order. DTensor slices it at byte 8.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  // Share the state itself instead of a copy, so that what one generator draws advances the other.
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& generator) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

  static c10::DeviceType device_type();

 private:
  struct State;
  Generator(c10::DeviceIndex index, std::shared_ptr<State> state);
  Generator* clone_impl() const override;

  std::shared_ptr<State> state_;
};

// The device's own generator, used where a program gives none. `index` is checked by the caller.
const at::Generator& default_generator(c10::DeviceIndex index);
at::Generator make_generator(c10::DeviceIndex index);

}  // namespace neuron::torch_face
