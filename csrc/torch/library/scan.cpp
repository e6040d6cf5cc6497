// "scan" [out, x] ints [kind, dim]: an inclusive cumulative op along one dimension; out has the dtype of x.
#include <ATen/ops/cummax.h>
#include <ATen/ops/cummin.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/cumsum.h>
#include <c10/util/Exception.h>

#include "torch/library/tensors.h"

namespace neuron::torch_face {
namespace {

enum Kind : std::int64_t { kAdd, kMultiply, kMaximum, kMinimum };

// On booleans, adding is "or" and multiplying is "and": the running maximum and minimum.
std::int64_t kind_for(std::int64_t kind, at::ScalarType type) {
  if (type != at::kBool) return kind;
  return kind == kAdd ? kMaximum : kind == kMultiply ? kMinimum : kind;
}

void scan(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor out = arguments.tensor(0);
  const at::Tensor x = arguments.tensor(1);
  const std::int64_t dim = arguments.integer(1);
  switch (kind_for(arguments.integer(0), x.scalar_type())) {
    case kAdd:
      at::cumsum_out(out, x, dim, x.scalar_type());
      return;
    case kMultiply:
      at::cumprod_out(out, x, dim, x.scalar_type());
      return;
    case kMaximum:
      out.copy_(std::get<0>(at::cummax(x, dim)));
      return;
    case kMinimum:
      out.copy_(std::get<0>(at::cummin(x, dim)));
      return;
    default:
      TORCH_CHECK(false, "scan: kind ", arguments.integer(0), ", allowed are 0 (add), 1 (multiply), 2 (maximum) and 3 (minimum)");
  }
}

const LibraryRegistration kScan("scan", &scan);

}  // namespace
}  // namespace neuron::torch_face
