#include "torch/eager/key.h"

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <string_view>

#include "torch/device/device.h"
#include "torch/eager/overlap.h"

namespace neuron::torch_face {
namespace {

std::atomic<std::uint64_t> compile_flags{0};  // independent of all other data: relaxed

// The low byte of the word that starts every argument's part of a key; it says how the rest is read, so keys parse unambiguously.
enum class Tag : std::uint64_t {
  kNone, kTensor, kHostScalar, kHostComplex, kInt, kDouble, kBool, kComplex, kList, kGenerator, kDevice, kString,
  kScalarInt, kScalarDouble, kScalarBool,
};

constexpr std::uint64_t word(Tag tag, std::uint64_t payload = 0) { return static_cast<std::uint64_t>(tag) | payload << 8; }

// Bits of a tensor's payload: dtype in 0–7, rank in 8–15, then flags.
constexpr std::uint64_t kContiguous = 1 << 16, kConjugate = 1 << 17, kNegative = 1 << 18, kWrappedNumber = 1 << 19;

std::uint64_t dtype_and_rank(const at::TensorImpl& tensor) {
  return static_cast<std::uint64_t>(c10::typeMetaToScalarType(tensor.dtype())) | static_cast<std::uint64_t>(tensor.dim()) << 8;
}

[[noreturn]] void throw_device_mix(c10::Device first, c10::Device second) {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", first, " and ", second, "!");
  std::abort();  // not reached: the check throws
}

struct Reader {
  Call& call;
  c10::Device device{kNeuron, -1};  // of the tensors seen so far
  c10::Device factory_device{kNeuron, -1};

  void argument(const ArgumentPlan& plan, const c10::IValue& value) {
    switch (plan.kind) {
      case ArgumentKind::kTensor:
        return tensor(value, plan.written);
      case ArgumentKind::kTensorList:
        return list(value, [&](const c10::IValue& element) { tensor(element, plan.written); });
      case ArgumentKind::kScalar:
        return scalar(value);
      case ArgumentKind::kScalarList:
        return list(value, [&](const c10::IValue& element) { scalar(element); });
      case ArgumentKind::kGenerator:
        return generator(value);
      case ArgumentKind::kDevice:
        return device_argument(value);
      case ArgumentKind::kValue:
        return by_value(value);
    }
  }

  template <typename Each>
  void list(const c10::IValue& value, Each each) {
    if (value.isNone()) return call.key.push(word(Tag::kNone));
    const auto elements = value.toListRef();
    call.key.push(word(Tag::kList, elements.size()));
    for (const c10::IValue& element : elements) each(element);
  }

  void position(const at::Tensor* tensor, void* data, ScalarValue scalar, bool written) {
    call.positions.push({tensor, data, scalar, written});
  }

  void tensor(const c10::IValue& value, bool written) {
    if (!value.isTensor() || !value.toTensor().defined()) {
      call.key.push(word(Tag::kNone));
      return position(nullptr, nullptr, {}, written);
    }
    const at::Tensor& tensor = value.toTensor();
    const at::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    const c10::Device where = impl.device();
    if (where.type() != kNeuron) [[unlikely]]
      return host_tensor(tensor, written);
    if (where.index() != device.index()) {
      if (device.index() >= 0) throw_device_mix(device, where);
      device = where;
    }
    device_tensor(tensor, impl, written);
  }

  void device_tensor(const at::Tensor& tensor, const at::TensorImpl& impl, bool written) {
    std::uint64_t payload = dtype_and_rank(impl);
    const bool contiguous = impl.is_contiguous();
    if (contiguous) payload |= kContiguous;
    if (impl.is_conj()) payload |= kConjugate;
    if (impl.is_neg()) payload |= kNegative;
    call.key.push(word(Tag::kTensor, payload));
    const auto sizes = impl.sizes();
    std::memcpy(call.key.extend(sizes.size()), sizes.data(), sizes.size() * sizeof(std::int64_t));
    if (!contiguous) {
      const auto strides = impl.strides();
      std::memcpy(call.key.extend(strides.size()), strides.data(), strides.size() * sizeof(std::int64_t));
    }
    // data() leaves copy-on-write storage shared; mutable_data() gives the tensor its own copy first.
    void* data = written ? const_cast<at::TensorImpl&>(impl).mutable_data() : const_cast<void*>(impl.data());
    position(&tensor, data, {}, written);
  }

  // A 0-d CPU tensor is a scalar; any other tensor that is not on the device is an error.
  void host_tensor(const at::Tensor& tensor, bool written) {
    if (written || tensor.device().type() != c10::DeviceType::CPU || tensor.dim() != 0) {
      throw_device_mix(device.index() >= 0 ? device : c10::Device(kNeuron, current_device()), tensor.device());
    }
    const bool complex = tensor.is_complex();
    std::uint64_t payload = dtype_and_rank(*tensor.unsafeGetTensorImpl());
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) payload |= kWrappedNumber;
    call.key.push(word(complex ? Tag::kHostComplex : Tag::kHostScalar, payload));
    const at::Scalar value = tensor.item();
    if (complex) push_complex(value.toComplexDouble());
    position(complex ? nullptr : &tensor, nullptr, complex ? ScalarValue{} : scalar_value(value), false);
  }

  static ScalarValue scalar_value(const at::Scalar& value) {
    if (value.isFloatingPoint()) return {std::bit_cast<std::uint64_t>(value.toDouble()), ScalarKind::kDouble};
    if (value.isBoolean()) return {value.toBool(), ScalarKind::kInt};
    if (value.type() == at::kUInt64) return {value.toUInt64(), ScalarKind::kInt};
    return {static_cast<std::uint64_t>(value.toLong()), ScalarKind::kInt};
  }

  void scalar(const c10::IValue& value) {
    if (value.isDouble()) return scalar(Tag::kScalarDouble, std::bit_cast<std::uint64_t>(value.toDouble()), ScalarKind::kDouble);
    if (value.isInt()) return scalar(Tag::kScalarInt, static_cast<std::uint64_t>(value.toInt()), ScalarKind::kInt);
    if (value.isBool()) return scalar(Tag::kScalarBool, value.toBool(), ScalarKind::kInt);
    by_value(value);
    position(nullptr, nullptr, {}, false);
  }

  void scalar(Tag tag, std::uint64_t bits, ScalarKind kind) {
    call.key.push(word(tag));
    position(nullptr, nullptr, {bits, kind}, false);
  }

  void generator(const c10::IValue& value) {
    if (value.isNone()) return;
    // The IValue keeps the generator alive as long as the call's arguments.
    given_generator = value.toGenerator();
    call.generator = &given_generator;
  }

  void device_argument(const c10::IValue& value) {
    if (value.isNone()) return call.key.push(word(Tag::kNone));
    factory_device = value.toDevice();
    call.key.push(word(Tag::kDevice, static_cast<std::uint64_t>(factory_device.type())));
  }

  void by_value(const c10::IValue& value) {
    if (value.isNone()) return call.key.push(word(Tag::kNone));
    if (value.isInt()) return push_pair(word(Tag::kInt), static_cast<std::uint64_t>(value.toInt()));
    if (value.isBool()) return call.key.push(word(Tag::kBool, value.toBool()));
    if (value.isDouble()) return push_pair(word(Tag::kDouble), std::bit_cast<std::uint64_t>(value.toDouble()));
    if (value.isList()) return list(value, [&](const c10::IValue& element) { by_value(element); });
    if (value.isString()) return push_string(value.toStringView());
    if (value.isDevice()) return device_argument(value);
    if (value.isComplexDouble()) {
      call.key.push(word(Tag::kComplex));
      return push_complex(value.toComplexDouble());
    }
    TORCH_CHECK_NOT_IMPLEMENTED(false, "device neuron: an argument of kind ", value.tagKind(), " is not supported in eager mode");
  }

  void push_pair(std::uint64_t first, std::uint64_t second) {
    std::uint64_t* words = call.key.extend(2);
    words[0] = first;
    words[1] = second;
  }

  void push_complex(c10::complex<double> value) {
    push_pair(std::bit_cast<std::uint64_t>(value.real()), std::bit_cast<std::uint64_t>(value.imag()));
  }

  void push_string(std::string_view text) {
    call.key.push(word(Tag::kString, text.size()));
    const std::size_t words = (text.size() + 7) / 8;
    std::uint64_t* start = call.key.extend(words);
    std::fill_n(start, words, 0);
    std::memcpy(start, text.data(), text.size());
  }

  c10::Generator given_generator;
};

// Multiply-and-fold over the words: one multiplication each, all 64 bits of a word reach all bits of the result.
std::uint64_t hash_words(std::span<const std::uint64_t> words) {
  std::uint64_t hash = 0x9E3779B97F4A7C15ULL ^ words.size();
  for (std::uint64_t value : words) {
    const auto product = static_cast<unsigned __int128>(hash ^ value) * 0xD6E8FEB86659FD93ULL;
    hash = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
  return hash;
}

}  // namespace

void Call::read(const CallPlan& plan, std::span<const c10::IValue> arguments) {
  key.clear();
  positions.clear();
  generator = c10::Generator();
}

}  // namespace neuron::torch_face
