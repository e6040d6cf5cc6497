// "fft" [out, x] ints [kind, dimensions, last length]: a Fourier transform along the last dimensions.
#include <ATen/ops/_fft_c2c.h>
#include <ATen/ops/_fft_c2r.h>
#include <ATen/ops/_fft_r2c.h>
#include <c10/util/Exception.h>

#include <numeric>
#include <vector>

#include "torch/library/tensors.h"

namespace neuron::torch_face {
namespace {

enum Kind : std::int64_t { kForward, kInverse, kFromReal, kToReal };

// ATen's ways to scale a transform.
enum Normalization : std::int64_t { kNone = 0, kByLength = 2 };

void fft(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor out = arguments.tensor(0);
  const at::Tensor x = arguments.tensor(1);
  std::vector<std::int64_t> dims(arguments.integer(1));
  std::iota(dims.begin(), dims.end(), x.dim() - arguments.integer(1));
  switch (arguments.integer(0)) {
    case kForward:
      at::_fft_c2c_out(out, x, dims, kNone, /*forward=*/true);
      return;
    case kInverse:
      at::_fft_c2c_out(out, x, dims, kByLength, /*forward=*/false);
      return;
    case kFromReal:
      at::_fft_r2c_out(out, x, dims, kNone, /*onesided=*/true);
      return;
    case kToReal:
      at::_fft_c2r_out(out, x, dims, kByLength, /*last_dim_size=*/arguments.integer(2));
      return;
    default:
      TORCH_CHECK(false, "fft: kind ", arguments.integer(0), ", allowed are 0 (FFT), 1 (IFFT), 2 (RFFT) and 3 (IRFFT)");
  }
}

const LibraryRegistration kFft("fft", &fft);

}  // namespace
}  // namespace neuron::torch_face
