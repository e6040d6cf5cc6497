#include "torch/library/tensors.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/Exception.h>

#include <iterator>
#include <utility>

namespace neuron::torch_face {
namespace {

// In the order of the codes.
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
  const auto index = static_cast<std::size_t>(dtype);
  if (index < std::size(kTypes)) return kTypes[index].second;
  TORCH_CHECK(false, "library kernel: dtype code ", static_cast<int>(dtype), " is unknown");
}

DType dtype_of(c10::ScalarType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  TORCH_CHECK(false, "library kernel: programs have no dtype ", type);
}

// What at::from_blob does, without its checks of arguments that a program's tensors always meet.
at::Tensor as_tensor(const LibraryTensor& tensor) {
  const caffe2::TypeMeta dtype = c10::scalarTypeToTypeMeta(scalar_type(tensor.dtype));
  const std::size_t bytes = at::detail::computeStorageNbytes(tensor.sizes, tensor.strides, dtype.itemsize());
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, c10::DataPtr(tensor.data, at::kCPU),
                                                       /*allocator=*/nullptr, /*resizable=*/false);
  auto result =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CPU), dtype);
  result.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes, tensor.strides);
  return result;
}

std::optional<at::Tensor> Arguments::optional_tensor(std::size_t index) const {
  if (index >= call_.tensors.size() || call_.tensors[index].dtype == DType::kAbsent) return std::nullopt;
  return tensor(index);
}

}  // namespace neuron::torch_face
