#include "torch/library/tensors.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <utility>

namespace neuron::torch_face {
namespace {

constexpr std::pair<DType, c10::ScalarType> kTypes[] = {
    {DType::kBool, c10::kBool},
    {DType::kInt8, c10::kChar},
    {DType::kInt16, c10::kShort},
    {DType::kInt32, c10::kInt},
    {DType::kInt64, c10::kLong},
    {DType::kUInt8, c10::kByte},
    {DType::kUInt16, c10::kUInt16},
    {DType::kUInt32, c10::kUInt32},
    {DType::kUInt64, c10::kUInt64},
    {DType::kFloat16, c10::kHalf},
    {DType::kBFloat16, c10::kBFloat16},
    {DType::kFloat32, c10::kFloat},
    {DType::kFloat64, c10::kDouble},
    {DType::kComplex64, c10::kComplexFloat},
    {DType::kComplex128, c10::kComplexDouble},
    {DType::kFloat8E4M3FN, c10::kFloat8_e4m3fn},
    {DType::kFloat8E5M2, c10::kFloat8_e5m2},
};

}  // namespace

c10::ScalarType scalar_type(DType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  TORCH_CHECK(false, "library kernel: dtype code ", static_cast<int>(dtype), " is unknown");
}

DType dtype_of(c10::ScalarType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  TORCH_CHECK(false, "library kernel: programs have no dtype ", type);
}

at::Tensor as_tensor(const LibraryTensor& tensor) {
  return at::from_blob(tensor.data, tensor.sizes, tensor.strides, at::TensorOptions().dtype(scalar_type(tensor.dtype)));
}

std::optional<at::Tensor> Arguments::optional_tensor(std::size_t index) const {
  if (index >= call_.tensors.size() || call_.tensors[index].dtype == DType::kAbsent) return std::nullopt;
  return tensor(index);
}

}  // namespace neuron::torch_face
