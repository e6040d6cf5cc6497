#include "torch/eager/resolve.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/strides.h>

namespace neuron::torch_face {
namespace {

// Turns the places of a binding into positions of calls like `call`, and checks what a launch will not check again.
class Resolver {
 public:
  Resolver(const Call& call, const std::string& name, PositionOf position_of) : call_(call), name_(name), position_of_(position_of) {}

  std::unique_ptr<const LaunchPlan> resolve(const EagerProgram& program) const {
    auto plan = std::make_unique<LaunchPlan>();
    const Executable& executable = *program.executable;
    plan->executable = program.executable;
    for (const ReturnSpec& spec : program.binding.returns) plan->returns.push_back(returned(spec, program.binding));
    plan->rng_draws = program.binding.rng_draws;
    for (std::size_t i = 0; i < program.binding.inputs.size(); ++i) {
      plan->inputs.push_back(tensor_position(program.binding.inputs[i], executable.input_bytes()[i]));
    }
    for (const ScalarSource& source : program.binding.scalars) plan->slots.push_back(slot(source));
    for (std::size_t i = 0; i < program.binding.outputs.size(); ++i) {
      plan->outputs.push_back(output(program.binding.outputs[i], executable.output_bytes()[i]));
    }
    return plan;
  }

 private:
  void check(bool holds, const char* what) const { TORCH_CHECK(holds, "program of ", name_, ": ", what); }

  const Position& at(std::uint32_t position) const { return call_.positions[position]; }

  std::uint32_t tensor_position(const Place& place, std::uint64_t bytes) const {
    const std::uint32_t position = position_of_(place);
    const at::Tensor* tensor = at(position).tensor;
    check(tensor != nullptr && tensor->is_privateuseone(), "a buffer is bound to something that is no neuron tensor");
    check(at::detail::computeStorageNbytes(tensor->sizes(), tensor->strides(), tensor->itemsize()) >= bytes,
          "a buffer is smaller than the program needs");
    return position;
  }

  SlotPlan slot(const ScalarSource& source) const {
    if (source.kind != ScalarSource::kArgument) return {source.kind, 0, SlotPlan::kBits};
    const std::uint32_t position = position_of_(source.place);
    const bool is_double = at(position).scalar.kind == ScalarKind::kDouble;
    check(at(position).scalar.kind != ScalarKind::kAbsent, "a scalar slot is bound to something that is no real number");
    if (is_double == source.as_double) return {source.kind, position, SlotPlan::kBits};
    return {source.kind, position, source.as_double ? SlotPlan::kIntToDouble : SlotPlan::kDoubleToInt};
  }

  // An output that is written into an argument is returned as that argument.
  ReturnSpec returned(ReturnSpec spec, const Binding& binding) const {
    if (spec.kind == ReturnSpec::kOutput && binding.outputs[spec.output].place) {
      return {ReturnSpec::kArgument, 0, *binding.outputs[spec.output].place};
    }
    for (ReturnSpec& item : spec.items) item = returned(item, binding);
    return spec;
  }

  OutputPlan output(const OutputSpec& spec, std::uint64_t bytes) const {
    if (spec.place) {
      const std::uint32_t position = tensor_position(*spec.place, bytes);
      check(at(position).written, "an output is an argument that the schema does not write");
      return {position, {}, {}, false, {}, 0};
    }
    const caffe2::TypeMeta dtype = c10::scalarTypeToTypeMeta(spec.dtype);
    const std::size_t size = at::detail::computeStorageNbytes(spec.sizes, spec.strides, dtype.itemsize());
    check(size >= bytes, "an output is smaller than the program needs");
    return {-1,    spec.sizes, spec.strides, at::IntArrayRef(spec.strides) == at::IntArrayRef(c10::contiguous_strides(spec.sizes)),
            dtype, size};
  }

  const Call& call_;
  const std::string& name_;
  PositionOf position_of_;
};

}  // namespace

std::unique_ptr<const LaunchPlan> resolve(const EagerProgram& program, const Call& call, const std::string& name, PositionOf position_of) {
  return Resolver(call, name, position_of).resolve(program);
}

}  // namespace neuron::torch_face
