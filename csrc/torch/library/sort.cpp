// "sort" [values, indices, x] ints [dim, descending, stable]; "topk" [values, indices, x] ints [k, dim, largest], sorted.
#include <ATen/ops/sort.h>
#include <ATen/ops/topk.h>

#include "torch/library/tensors.h"

namespace neuron::torch_face {
namespace {

void sort(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor values = arguments.tensor(0), indices = arguments.tensor(1);
  at::sort_out(values, indices, arguments.tensor(2), /*stable=*/arguments.flag(2), /*dim=*/arguments.integer(0),
               /*descending=*/arguments.flag(1));
}

void topk(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor values = arguments.tensor(0), indices = arguments.tensor(1);
  at::topk_out(values, indices, arguments.tensor(2), arguments.integer(0), arguments.integer(1), arguments.flag(2), /*sorted=*/true);
}

const LibraryRegistration kSort("sort", &sort);
const LibraryRegistration kTopk("topk", &topk);

}  // namespace
}  // namespace neuron::torch_face
