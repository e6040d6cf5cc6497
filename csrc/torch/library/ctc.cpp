// "ctc_loss" [nll, log_alpha, log_probs, targets, input lengths, target lengths] ints [blank]; "ctc_loss_backward" [dlog_probs, dnll,
// log_probs, targets, input lengths, target lengths, nll, log_alpha] ints [blank, zero_infinity].
#include <ATen/ops/_ctc_loss.h>
#include <ATen/ops/_ctc_loss_backward.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <vector>

#include "torch/library/tensors.h"

namespace neuron::torch_face {
namespace {

std::vector<std::int64_t> numbers(const at::Tensor& lengths) {
  const at::Tensor contiguous = lengths.contiguous();
  const auto* first = contiguous.const_data_ptr<std::int64_t>();
  return {first, first + contiguous.numel()};
}

// ATen's log_alpha ends at the longest target of the batch; the program's at the longest that fits.
at::Tensor used_part(const at::Tensor& log_alpha, const std::vector<std::int64_t>& target_lengths) {
  return log_alpha.narrow(2, 0, 2 * *std::max_element(target_lengths.begin(), target_lengths.end()) + 1);
}

// ATen reads and writes at every label without looking. Labels behind a target's end may be anything.
void check_labels(const at::Tensor& targets, const std::vector<std::int64_t>& target_lengths, std::int64_t classes) {
  const at::Tensor contiguous = targets.contiguous();
  const auto* row = contiguous.const_data_ptr<std::int64_t>();
  for (const std::int64_t length : target_lengths) {
    for (std::int64_t place = 0; place < length; ++place)
      TORCH_CHECK(0 <= row[place] && row[place] < classes, "ctc_loss: a target is ", row[place], "; it must be in [0, ", classes, ")");
    row += targets.size(1);
  }
}

void ctc_loss(const LibraryCall& call) {
  const Arguments arguments(call);
  const auto input_lengths = numbers(arguments.tensor(4)), target_lengths = numbers(arguments.tensor(5));
  check_labels(arguments.tensor(3), target_lengths, arguments.tensor(2).size(2));
  const auto [loss, log_alpha] =
      at::_ctc_loss(arguments.tensor(2), arguments.tensor(3), input_lengths, target_lengths, arguments.integer(0), /*zero_infinity=*/false);
  arguments.tensor(0).copy_(loss);
  used_part(arguments.tensor(1), target_lengths).copy_(log_alpha);
}

void ctc_loss_backward(const LibraryCall& call) {
  const Arguments arguments(call);
  const auto input_lengths = numbers(arguments.tensor(4)), target_lengths = numbers(arguments.tensor(5));
  const at::Tensor log_alpha = used_part(arguments.tensor(7), target_lengths).contiguous();
  arguments.tensor(0).copy_(at::_ctc_loss_backward(arguments.tensor(1), arguments.tensor(2), arguments.tensor(3), input_lengths,
                                                   target_lengths, arguments.tensor(6), log_alpha, arguments.integer(0),
                                                   arguments.flag(1)));
}

const LibraryRegistration kCtcLoss("ctc_loss", &ctc_loss);
const LibraryRegistration kCtcLossBackward("ctc_loss_backward", &ctc_loss_backward);

}  // namespace
}  // namespace neuron::torch_face
