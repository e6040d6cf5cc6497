#include "torch/eager/call_reader.h"

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <string_view>

#include "torch/eager/overlap.h"

namespace neuron::torch_face {
namespace {

std::atomic<std::uint64_t> compile_flags{0};  // independent of all other data: relaxed

// The low byte of the word that starts every argument's part of a key; it says how the rest is read, so keys parse unambiguously.
enum class Tag : std::uint64_t {
  kNone,
  kTensor,
  kHostScalar,
  kHostComplex,
  kInt,
  kDouble,
  kBool,
  kComplex,
  kList,
  kGenerator,
  kDevice,
  kString,
  kScalarInt,
  kScalarDouble,
  kScalarBool,
};

constexpr std::uint64_t word(Tag tag, std::uint64_t payload = 0) { return static_cast<std::uint64_t>(tag) | payload << 8; }

// Bits of a tensor's payload: dtype in 0–7, rank in 8–15, then flags.
constexpr std::uint64_t kContiguous = 1 << 16, kConjugate = 1 << 17, kNegative = 1 << 18, kWrappedNumber = 1 << 19, kZero = 1 << 20;

std::uint64_t dtype_and_rank(const at::TensorImpl& tensor) {
  return static_cast<std::uint64_t>(c10::typeMetaToScalarType(tensor.dtype())) | static_cast<std::uint64_t>(tensor.dim()) << 8;
}

[[noreturn]] void throw_device_mix(c10::Device first, c10::Device second) {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", first, " and ", second, "!");
  std::abort();  // not reached: the check throws
}

// The element of a real 0-d CPU tensor.
ScalarValue host_value(const at::TensorImpl& tensor) {
  const void* data = tensor.data();
  switch (c10::typeMetaToScalarType(tensor.dtype())) {
#define NEURON_FLOAT_CASE(type, name) \
  case c10::ScalarType::name:         \
    return {std::bit_cast<std::uint64_t>(static_cast<double>(*static_cast<const type*>(data))), ScalarKind::kDouble};
#define NEURON_INT_CASE(type, name) \
  case c10::ScalarType::name:       \
    return {static_cast<std::uint64_t>(static_cast<std::int64_t>(*static_cast<const type*>(data))), ScalarKind::kInt};
    NEURON_FLOAT_CASE(double, Double)
    NEURON_FLOAT_CASE(float, Float)
    NEURON_FLOAT_CASE(c10::Half, Half)
    NEURON_FLOAT_CASE(c10::BFloat16, BFloat16)
    NEURON_FLOAT_CASE(c10::Float8_e4m3fn, Float8_e4m3fn)
    NEURON_FLOAT_CASE(c10::Float8_e5m2, Float8_e5m2)
    NEURON_INT_CASE(bool, Bool)
    NEURON_INT_CASE(std::int8_t, Char)
    NEURON_INT_CASE(std::int16_t, Short)
    NEURON_INT_CASE(std::int32_t, Int)
    NEURON_INT_CASE(std::int64_t, Long)
    NEURON_INT_CASE(std::uint8_t, Byte)
    NEURON_INT_CASE(std::uint16_t, UInt16)
    NEURON_INT_CASE(std::uint32_t, UInt32)
    NEURON_INT_CASE(std::uint64_t, UInt64)
#undef NEURON_FLOAT_CASE
#undef NEURON_INT_CASE
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "device neuron: a CPU scalar tensor of dtype ", tensor.dtype().name(), " is not supported");
  }
}

bool is_list(ArgumentKind kind) { return kind == ArgumentKind::kTensorList || kind == ArgumentKind::kScalarList; }

// How many positions an argument contributes to a call.
std::uint32_t position_count(ArgumentKind kind, const c10::IValue& value) {
  if (is_list(kind)) return value.isNone() ? 0 : static_cast<std::uint32_t>(value.toListRef().size());
  return kind == ArgumentKind::kTensor || kind == ArgumentKind::kScalar ? 1 : 0;
}

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

Call& this_call() {
  thread_local Call call;
  return call;
}

CallReader::CallReader(Call& call) : call_(call) {
  call_.key.clear();
  call_.positions.clear();
  call_.generator = nullptr;
  call_.key.push(compile_flags.load(std::memory_order_relaxed));
}

void CallReader::finish(const CallPlan& plan) {
  call_.device = device_.index() >= 0 ? device_.index() : factory_device_.index() >= 0 ? factory_device_.index() : current_device();
  if (plan.writes) read_overlaps(call_);
  call_.hash = hash_words(call_.key.span());
}

void CallReader::argument(const ArgumentPlan& plan, const c10::IValue& value) {
  switch (plan.kind) {
    case ArgumentKind::kTensor:
      return optional_tensor(value, plan.written);
    case ArgumentKind::kTensorList:
      return list(value, [&](const c10::IValue& element) { optional_tensor(element, plan.written); });
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

void CallReader::argument(const ArgumentPlan& plan, at::TensorList values) {
  call_.key.push(word(Tag::kList, values.size()));
  for (const at::Tensor& value : values) tensor(value, plan.written);
}

void CallReader::argument(const ArgumentPlan& plan, at::ArrayRef<at::Scalar> values) {
  call_.key.push(word(Tag::kList, values.size()));
  const bool by_kind = plan.kind == ArgumentKind::kScalarList;
  for (const at::Scalar& value : values) by_kind ? scalar(value) : by_value(value);
}

template <typename Each>
void CallReader::list(const c10::IValue& value, Each each) {
  if (value.isNone()) return call_.key.push(word(Tag::kNone));
  const auto elements = value.toListRef();
  call_.key.push(word(Tag::kList, elements.size()));
  for (const c10::IValue& element : elements) each(element);
}

void CallReader::position(const at::Tensor* tensor, void* data, ScalarValue scalar, bool written) {
  call_.positions.push({tensor, data, scalar, written});
}

void CallReader::optional_tensor(const c10::IValue& value, bool written) {
  static const at::Tensor absent;
  tensor(value.isTensor() ? value.toTensor() : absent, written);
}

void CallReader::tensor(const at::Tensor& tensor, bool written) {
  if (!tensor.defined()) {
    call_.key.push(word(Tag::kNone));
    return position(nullptr, nullptr, {}, written);
  }
  const at::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const c10::Device where = impl.device();
  if (where.type() != kNeuron) [[unlikely]]
    return host_tensor(tensor, written);
  if (where.index() != device_.index()) {
    if (device_.index() >= 0) throw_device_mix(device_, where);
    device_ = where;
  }
  device_tensor(tensor, impl, written);
}

void CallReader::device_tensor(const at::Tensor& tensor, const at::TensorImpl& impl, bool written) {
  std::uint64_t payload = dtype_and_rank(impl);
  const bool contiguous = impl.is_contiguous();
  if (contiguous) payload |= kContiguous;
  if (impl.is_conj()) payload |= kConjugate;
  if (impl.is_neg()) payload |= kNegative;
  // It has no memory: its program has a constant for it.
  if (impl.key_set().has(c10::DispatchKey::ZeroTensor)) payload |= kZero;
  call_.key.push(word(Tag::kTensor, payload));
  const auto sizes = impl.sizes();
  std::memcpy(call_.key.extend(sizes.size()), sizes.data(), sizes.size() * sizeof(std::int64_t));
  if (!contiguous) {
    const auto strides = impl.strides();
    std::memcpy(call_.key.extend(strides.size()), strides.data(), strides.size() * sizeof(std::int64_t));
  }
  // data() leaves copy-on-write storage shared; mutable_data() gives the tensor its own copy first.
  void* data = written ? const_cast<at::TensorImpl&>(impl).mutable_data() : const_cast<void*>(impl.data());
  position(&tensor, data, {}, written);
}

// A 0-d CPU tensor is a scalar; any other tensor that is not on the device is an error.
void CallReader::host_tensor(const at::Tensor& tensor, bool written) {
  if (written || tensor.device().type() != c10::DeviceType::CPU || tensor.dim() != 0) {
    throw_device_mix(device_.index() >= 0 ? device_ : c10::Device(kNeuron, current_device()), tensor.device());
  }
  const at::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  std::uint64_t payload = dtype_and_rank(impl);
  if (impl.is_wrapped_number()) payload |= kWrappedNumber;
  if (tensor.is_complex()) {
    call_.key.push(word(Tag::kHostComplex, payload));
    push_complex(tensor.item().toComplexDouble());
    return position(&tensor, nullptr, {}, false);
  }
  call_.key.push(word(Tag::kHostScalar, payload));
  position(&tensor, nullptr, impl.is_neg() ? host_value(*tensor.resolve_neg().unsafeGetTensorImpl()) : host_value(impl), false);
}

void CallReader::scalar(const c10::IValue& value) {
  if (value.isDouble()) return scalar(word(Tag::kScalarDouble), std::bit_cast<std::uint64_t>(value.toDouble()), ScalarKind::kDouble);
  if (value.isInt()) return scalar(word(Tag::kScalarInt), static_cast<std::uint64_t>(value.toInt()), ScalarKind::kInt);
  if (value.isBool()) return scalar(word(Tag::kScalarBool), value.toBool(), ScalarKind::kInt);
  by_value(value);
  position(nullptr, nullptr, {}, false);
}

void CallReader::scalar(std::uint64_t key_word, std::uint64_t bits, ScalarKind kind) {
  call_.key.push(key_word);
  position(nullptr, nullptr, {bits, kind}, false);
}

void CallReader::generator(const c10::IValue& value) {
  if (value.isNone()) return;
  call_.generator = &value;
}

void CallReader::device_argument(const c10::IValue& value) {
  if (value.isNone()) return call_.key.push(word(Tag::kNone));
  factory_device_ = value.toDevice();
  call_.key.push(word(Tag::kDevice, static_cast<std::uint64_t>(factory_device_.type())));
}

void CallReader::by_value(const c10::IValue& value) {
  if (value.isNone()) return call_.key.push(word(Tag::kNone));
  if (value.isInt()) return push_pair(word(Tag::kInt), static_cast<std::uint64_t>(value.toInt()));
  if (value.isBool()) return call_.key.push(word(Tag::kBool, value.toBool()));
  if (value.isDouble()) return push_pair(word(Tag::kDouble), std::bit_cast<std::uint64_t>(value.toDouble()));
  if (value.isList()) return list(value, [&](const c10::IValue& element) { by_value(element); });
  if (value.isString()) return push_string(value.toStringView());
  if (value.isDevice()) return device_argument(value);
  if (value.isComplexDouble()) {
    call_.key.push(word(Tag::kComplex));
    return push_complex(value.toComplexDouble());
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, "device neuron: an argument of kind ", value.tagKind(), " is not supported in eager mode");
}

void CallReader::push_pair(std::uint64_t first, std::uint64_t second) {
  std::uint64_t* words = call_.key.extend(2);
  words[0] = first;
  words[1] = second;
}

void CallReader::push_complex(c10::complex<double> value) {
  push_pair(std::bit_cast<std::uint64_t>(value.real()), std::bit_cast<std::uint64_t>(value.imag()));
}

void CallReader::push_string(std::string_view text) {
  call_.key.push(word(Tag::kString, text.size()));
  const std::size_t words = (text.size() + 7) / 8;
  std::uint64_t* start = call_.key.extend(words);
  std::fill_n(start, words, 0);
  std::memcpy(start, text.data(), text.size());
}

void read_call(Call& call, const CallPlan& plan, std::span<const c10::IValue> arguments) {
  CallReader reader(call);
  for (std::size_t i = 0; i < arguments.size(); ++i) reader.argument(plan.arguments[i], arguments[i]);
  reader.finish(plan);
}

std::uint32_t position_of(const CallPlan& plan, std::span<const c10::IValue> arguments, int argument, int element) {
  TORCH_CHECK(argument >= 0 && argument < static_cast<int>(arguments.size()), "binding: argument ", argument, " of ", arguments.size());
  std::uint32_t position = 0;
  for (int i = 0; i < argument; ++i) position += position_count(plan.arguments[i].kind, arguments[i]);
  const std::uint32_t count = position_count(plan.arguments[argument].kind, arguments[argument]);
  TORCH_CHECK(is_list(plan.arguments[argument].kind) ? element >= 0 && element < static_cast<int>(count) : element == -1 && count == 1,
              "binding: element ", element, " of argument ", argument, ", which has ", count, " tensors or scalars");
  return position + std::max(element, 0);
}

void set_compile_flags(std::uint64_t flags) { compile_flags.store(flags, std::memory_order_relaxed); }

}  // namespace neuron::torch_face
