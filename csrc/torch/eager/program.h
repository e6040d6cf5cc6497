// A compiled program with its binding: which tensors and scalars of a call go where. Made by Python on a miss, immutable afterwards.
#pragma once

#include <c10/core/ScalarType.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/executable.h"

namespace neuron::torch_face {

// A tensor or scalar of a call: a schema argument, or an element of one that is a list (-1: the argument itself).
struct Place {
  int argument;
  int element;
};

struct ScalarSource {
  enum Kind : std::uint8_t { kArgument, kSeed, kOffset } kind;
  Place place;
  bool as_double;
};

struct OutputSpec {
  std::optional<Place> place;  // the tensor that is written; otherwise a new one of:
  std::vector<std::int64_t> sizes, strides;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
};

struct ReturnSpec {
  enum Kind : std::uint8_t { kOutput, kArgument, kNone, kList } kind;
  std::uint32_t output = 0;
  Place place{};
  std::vector<ReturnSpec> items{};
};

struct Binding {
  std::vector<Place> inputs;
  std::vector<ScalarSource> scalars;
  std::vector<OutputSpec> outputs;
  std::vector<ReturnSpec> returns;
  std::uint64_t rng_draws = 0;  // Philox counter blocks
};

// Python's `_C.EagerProgram(image: bytes, binding: dict)`; the dict's fields are in docs/architecture.md, seam 4.
struct EagerProgram {
  // Throws InvalidArgument for a malformed image, ValueError for a binding that does not fit it.
  EagerProgram(const pybind11::bytes& image, const pybind11::dict& binding);

  std::shared_ptr<const Executable> executable;
  Binding binding;
};

}  // namespace neuron::torch_face
