// "random_variate" [out, first], or [out, first, second]: numbers of a distribution whose parameters are the operands, all of one shape and
// f32 or f64; out is contiguous. ints [distribution, start]; scalars seed, offset. A number is made of as many draws as rejection takes,
// from a stream of its own: Philox blocks with counters (offset + start, element, draw > 0), which no launch's words share. So the numbers
// do not depend on threads, and a launch takes one block of the generator's stream.
#include <ATen/native/Distributions.h>
#include <c10/util/Exception.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/parallel.h"
#include "core/philox.h"
#include "torch/library/tensors.h"

namespace neuron::torch_face {
namespace {

constexpr std::int64_t kGrain = 256;  // numbers per task: some 20 microseconds

// The random numbers of one element.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t offset, std::uint64_t element)
      : key_{low(seed), high(seed)}, counter_{low(offset), high(offset), low(element), high(element) << kDrawBits} {}

  // [0, 1) with 53 bits.
  double uniform() {
    if (unused_ == 0) {
      ++counter_[3];
      words_ = philox_block(counter_, key_);
      unused_ = 2;
    }
    --unused_;
    const std::uint64_t word = words_[2 * unused_] | static_cast<std::uint64_t>(words_[2 * unused_ + 1]) << 32;
    return static_cast<double>(word >> 11) * 0x1p-53;
  }

  // Box and Muller; the second number of a pair is not kept, as rejection draws few.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  static constexpr int kDrawBits = 16;
  static constexpr std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
  static constexpr std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> words_{};
  std::size_t unused_ = 0;
};

// The number of uniform factors whose product stays above e^-rate.
double poisson_by_products(double rate, Draws& draws) {
  const double least = std::exp(-rate);
  double count = 0;
  for (double product = draws.uniform(); product > least; product *= draws.uniform()) ++count;
  return count;
}

// Transformed rejection with squeeze: PTRS of Hörmann, "The transformed rejection method for generating Poisson random variables" (1993).
double poisson_by_rejection(double rate, Draws& draws) {
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), inner = 0.9277 - 3.6224 / (b - 2);
  const double log_rate = std::log(rate);
  while (true) {
    const double u = draws.uniform() - 0.5, v = draws.uniform();
    const double distance = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / distance + b) * u + rate + 0.43);
    if (distance >= 0.07 && v <= inner) return k;
    if (k < 0 || (distance < 0.013 && v > distance)) continue;
    int sign = 0;
    const double log_factorial = lgamma_r(k + 1, &sign);
    const double log_accepted = std::log(v) + std::log(inverse_alpha) - std::log(a / (distance * distance) + b);
    if (log_accepted <= k * log_rate - rate - log_factorial) return k;
  }
}

double poisson(double rate, double, Draws& draws) {
  TORCH_CHECK(rate >= 0, "invalid Poisson rate, expected rate to be non-negative");
  if (std::isinf(rate)) return rate;
  return rate < 10 ? poisson_by_products(rate, draws) : poisson_by_rejection(rate, draws);
}

double gamma(double shape, double, Draws& draws) {
  const auto uniform = [&draws] { return draws.uniform(); };
  const auto normal = [&draws] { return draws.normal(); };
  BaseSampler<double, decltype(uniform)> uniforms(uniform);
  BaseSampler<double, decltype(normal)> normals(normal);
  return sample_gamma<double, double, decltype(uniform), decltype(normal)>(shape, uniforms, normals);
}

double binomial(double count, double probability, Draws& draws) {
  TORCH_CHECK(probability >= 0 && probability <= 1, "binomial: a probability is not in [0, 1]");
  TORCH_CHECK(count >= 0 && std::isfinite(count), "binomial: a count is negative or not finite");
  const auto uniform = [&draws] { return draws.uniform(); };
  BaseSampler<double, decltype(uniform)> uniforms(uniform);
  return sample_binomial<double, double, decltype(uniform)>(count, probability, uniforms);
}

// RANDOM_DISTRIBUTIONS of compiler/hlo/library_rules.py.
constexpr std::array kDistributions = {&poisson, &gamma, &binomial};

template <typename Number>
struct Filling {
  std::uint64_t seed, offset;
  double (*distribution)(double, double, Draws&);
  Number* out;
  const Number* first;
  const Number* second;

  static void range(void* context, std::int64_t begin, std::int64_t end) {
    const auto& own = *static_cast<const Filling*>(context);
    for (std::int64_t i = begin; i < end; ++i) {
      Draws draws(own.seed, own.offset, static_cast<std::uint64_t>(i));
      own.out[i] = static_cast<Number>(own.distribution(own.first[i], own.second[i], draws));
    }
  }
};

template <typename Number>
void fill(const LibraryCall& call, const Arguments& arguments) {
  at::Tensor out = arguments.tensor(0);
  const at::Tensor first = arguments.tensor(1).contiguous();
  const at::Tensor second = call.tensors.size() > 2 ? arguments.tensor(2).contiguous() : first;
  Filling<Number> filling{call.scalars[0],
                          call.scalars[1] + static_cast<std::uint64_t>(arguments.integer(1)),
                          kDistributions.at(static_cast<std::size_t>(arguments.integer(0))),
                          out.mutable_data_ptr<Number>(),
                          first.const_data_ptr<Number>(),
                          second.const_data_ptr<Number>()};
  const std::int64_t count = out.numel();
  if (count <= kGrain) return Filling<Number>::range(&filling, 0, count);
  parallel_for()(count, kGrain, &Filling<Number>::range, &filling);
}

void random_variate(const LibraryCall& call) {
  const Arguments arguments(call);
  call.tensors[0].dtype == DType::kFloat64 ? fill<double>(call, arguments) : fill<float>(call, arguments);
}

const LibraryRegistration kRandomVariate("random_variate", &random_variate);

}  // namespace
}  // namespace neuron::torch_face
