// Fused optimizer steps whose learning rate is a number. A `float` argument is part of a program, and a schedule changes the learning rate
// at every step. The overloads with a tensor for it take a 0-d host tensor by value, so that one program serves all rates.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include <optional>

namespace neuron::torch_face {
namespace {

using at::Tensor;
using at::TensorList;
using OptionalTensor = std::optional<Tensor>;

Tensor on_host(double rate) { return at::scalar_tensor(rate, at::dtype(at::kDouble)); }

void adam(TensorList self, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs, TensorList max_exp_avg_sqs,
          TensorList state_steps, double lr, double beta1, double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
          const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  at::_fused_adam_(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, on_host(lr), beta1, beta2, weight_decay, eps, amsgrad,
                   maximize, grad_scale, found_inf);
}

void adamw(TensorList self, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs, TensorList max_exp_avg_sqs,
           TensorList state_steps, double lr, double beta1, double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
           const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  at::_fused_adamw_(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, on_host(lr), beta1, beta2, weight_decay, eps, amsgrad,
                    maximize, grad_scale, found_inf);
}

void adagrad(TensorList self, TensorList grads, TensorList state_sums, TensorList state_steps, double lr, double lr_decay,
             double weight_decay, double eps, bool maximize, const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  at::_fused_adagrad_(self, grads, state_sums, state_steps, on_host(lr), lr_decay, weight_decay, eps, maximize, grad_scale, found_inf);
}

void sgd(TensorList self, TensorList grads, TensorList momentum_buffer_list, double weight_decay, double momentum, double lr,
         double dampening, bool nesterov, bool maximize, bool is_first_step, const OptionalTensor& grad_scale,
         const OptionalTensor& found_inf) {
  at::_fused_sgd_(self, grads, momentum_buffer_list, weight_decay, momentum, on_host(lr), dampening, nesterov, maximize, is_first_step,
                  grad_scale, found_inf);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_adam_", adam);
  m.impl("_fused_adamw_", adamw);
  m.impl("_fused_adagrad_", adagrad);
  m.impl("_fused_sgd_", sgd);
}

}  // namespace
}  // namespace neuron::torch_face
