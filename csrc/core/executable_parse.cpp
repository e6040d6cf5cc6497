// Executable::parse: the image format of docs/architecture.md, every reference checked.
#include <cstring>
#include <new>
#include <string_view>

#include "core/executable_contents.h"
#include "core/image_reader.h"

namespace neuron {
namespace {

constexpr std::string_view kMagic = "NEURONX1";
constexpr std::uint64_t kConstantAlignment = 64;
constexpr std::size_t kBufferRefBytes = 1 + 4 + 8;
constexpr std::size_t kTensorRefBytes = kBufferRefBytes + 1 + 4 + 4;

// Bytes of one element by DType; 0: not a dtype.
constexpr std::uint64_t kItemBytes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 1, 1};

// Bytes of each launch memory, against which references are checked.
struct Extents {
  std::span<const std::uint64_t> inputs, outputs;
  std::uint64_t scratch, constants;
};

struct CheckedRef {
  BufferRef ref;
  std::uint64_t bytes;  // from the offset to the end of the buffer
};

CheckedRef read_buffer(ImageReader& reader, const Extents& extents) {
  const auto space = reader.number<std::uint8_t>("buffer space");
  const auto index = reader.number<std::uint32_t>("buffer index");
  const auto offset = reader.number<std::uint64_t>("buffer offset");
  std::span<const std::uint64_t> buffers;
  switch (space) {
    case 0:
      buffers = extents.inputs;
      break;
    case 1:
      buffers = extents.outputs;
      break;
    case 2:
      buffers = {&extents.scratch, 1};
      break;
    case 3:
      buffers = {&extents.constants, 1};
      break;
    default:
      reader.fail("buffer space", std::to_string(space) + " is not 0 to 3");
  }
  if (index >= buffers.size()) {
    reader.fail("buffer index",
                std::to_string(index) + " with " + std::to_string(buffers.size()) + " buffers in space " + std::to_string(space));
  }
  if (offset > buffers[index]) {
    reader.fail("buffer offset", std::to_string(offset) + " in a buffer of " + std::to_string(buffers[index]) + " bytes");
  }
  return {{static_cast<Space>(space), index, offset}, buffers[index] - offset};
}

KernelStep read_kernel(ImageReader& reader, const Extents& extents, const CodeRegion& code, std::uint64_t code_bytes) {
  KernelStep step;
  step.name = reader.text("kernel name");
  const auto entry = reader.number<std::uint64_t>("kernel entry");
  if (entry >= code_bytes) reader.fail("kernel entry", std::to_string(entry) + " in " + std::to_string(code_bytes) + " bytes of code");
  step.function = reinterpret_cast<KernelFunction>(const_cast<std::byte*>(code.at(entry)));
  step.buffers.resize(reader.count(kBufferRefBytes, "kernel buffers"));
  for (BufferRef& ref : step.buffers) ref = read_buffer(reader, extents).ref;
  step.params = reader.numbers<std::int64_t>("kernel params");
  step.range = reader.number<std::int64_t>("kernel range");
  step.grain = reader.number<std::int64_t>("kernel grain");
  if (step.range < 0) reader.fail("kernel range", std::to_string(step.range) + " is negative");
  if (step.grain < 0) reader.fail("kernel grain", std::to_string(step.grain) + " is negative");
  return step;
}

// Throws unless the elements lie within `bytes` bytes from the tensor's start.
void check_extent(const ImageReader& reader, const LibraryTensor& tensor, std::uint64_t bytes) {
  const std::uint64_t item = kItemBytes[static_cast<std::size_t>(tensor.dtype)];
  std::uint64_t last = 0;  // element
  bool overflow = false, empty = false;
  for (std::size_t d = 0; d < tensor.sizes.size(); ++d) {
    if (tensor.sizes[d] < 0) reader.fail("tensor size", std::to_string(tensor.sizes[d]) + " is negative");
    if (tensor.strides[d] < 0) reader.fail("tensor stride", std::to_string(tensor.strides[d]) + " is negative");
    empty |= tensor.sizes[d] == 0;
    std::uint64_t step = 0;
    overflow |=
        __builtin_mul_overflow(static_cast<std::uint64_t>(tensor.sizes[d]) - 1, static_cast<std::uint64_t>(tensor.strides[d]), &step);
    overflow |= __builtin_add_overflow(last, step, &last);
  }
  if (!empty && (overflow || last >= bytes / item)) reader.fail("tensor extent", "elements lie behind the end of the buffer");
}

void read_tensor(ImageReader& reader, const Extents& extents, LibraryStep& step) {
  const CheckedRef place = read_buffer(reader, extents);
  const auto code = reader.number<std::uint8_t>("tensor dtype");
  LibraryTensor tensor{nullptr, static_cast<DType>(code), {}, {}};
  tensor.sizes = reader.numbers<std::int64_t>("tensor sizes");
  tensor.strides = reader.numbers<std::int64_t>("tensor strides");
  if (tensor.dtype != DType::kAbsent) {
    if (code >= std::size(kItemBytes)) reader.fail("tensor dtype", std::to_string(code) + " is no dtype code");
    if (tensor.sizes.size() != tensor.strides.size()) reader.fail("tensor strides", "not as many as sizes");
    check_extent(reader, tensor, place.bytes);
  }
  step.buffers.push_back(place.ref);
  step.tensors.push_back(std::move(tensor));
}

LibraryStep read_library(ImageReader& reader, const Extents& extents, std::uint32_t scalar_count) {
  LibraryStep step;
  step.symbol = reader.text("library symbol");
  step.function = find_library_kernel(step.symbol);
  if (step.function == nullptr) reader.fail("library symbol", "'" + step.symbol + "' is not registered");
  const std::size_t tensors = reader.count(kTensorRefBytes, "library tensors");
  for (std::size_t i = 0; i < tensors; ++i) read_tensor(reader, extents, step);
  step.ints = reader.numbers<std::int64_t>("library ints");
  step.floats = reader.numbers<double>("library floats");
  step.scalars = reader.numbers<std::uint32_t>("library scalars");
  for (const std::uint32_t slot : step.scalars) {
    if (slot >= scalar_count) reader.fail("library scalars", "slot " + std::to_string(slot) + " of " + std::to_string(scalar_count));
  }
  return step;
}

void check_donations(const ImageReader& reader, std::span<const std::int32_t> donations, std::size_t inputs, std::size_t outputs) {
  if (donations.size() != outputs) reader.fail("donations", "not one per output");
  for (const std::int32_t donation : donations) {
    if (donation < -1 || donation >= static_cast<std::int64_t>(inputs)) {
      reader.fail("donations", std::to_string(donation) + " with " + std::to_string(inputs) + " inputs");
    }
  }
}

}  // namespace

void Executable::Contents::read_header(ImageReader& reader) {
  const auto magic = reader.take(kMagic.size(), "magic");
  if (std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0) reader.fail("magic", "not " + std::string(kMagic));
  name = reader.text("name");
  signature = reader.text("signature");
  input_bytes = reader.numbers<std::uint64_t>("input_bytes");
  output_bytes = reader.numbers<std::uint64_t>("output_bytes");
  donations = reader.numbers<std::int32_t>("donations");
  check_donations(reader, donations, input_bytes.size(), output_bytes.size());
  scalar_count = reader.number<std::uint32_t>("scalar_count");
  scratch_bytes = reader.number<std::uint64_t>("scratch_bytes");
  work = reader.number<std::uint64_t>("work");
  const auto flag = reader.number<std::uint8_t>("parallel");
  if (flag > 1) reader.fail("parallel", std::to_string(flag) + " is not 0 or 1");
  parallel = flag == 1;
}

void Executable::Contents::read_memory(ImageReader& reader) {
  const auto data = reader.bytes("constants");
  constant_bytes = data.size();
  if (!data.empty()) {
    const std::size_t rounded = (data.size() + kConstantAlignment - 1) / kConstantAlignment * kConstantAlignment;
    constants.reset(static_cast<std::byte*>(std::aligned_alloc(kConstantAlignment, rounded)));
    if (constants == nullptr) throw std::bad_alloc();
    std::memcpy(constants.get(), data.data(), data.size());
  }
  const auto machine_code = reader.bytes("code");
  code_bytes = machine_code.size();
  code.emplace(machine_code);
  messages.resize(reader.count(sizeof(std::uint64_t), "messages"));
  for (std::string& message : messages) message = reader.text("message");
}

void Executable::Contents::read_steps(ImageReader& reader) {
  const Extents extents{input_bytes, output_bytes, scratch_bytes, constant_bytes};
  const std::size_t count = reader.count(1, "steps");
  for (std::size_t i = 0; i < count; ++i) {
    const auto kind = reader.number<std::uint8_t>("step kind");
    if (kind == 0) {
      steps.emplace_back(read_kernel(reader, extents, *code, code_bytes));
      tensor_lists.push_back(nullptr);
    } else if (kind == 1) {
      steps.emplace_back(read_library(reader, extents, scalar_count));
      tensor_lists.push_back(std::make_unique<TensorLists>());
    } else {
      reader.fail("step kind", std::to_string(kind) + " is not 0 or 1");
    }
  }
}

std::shared_ptr<const Executable> Executable::parse(std::span<const std::byte> image) {
  ImageReader reader(image);
  std::shared_ptr<Executable> executable(new Executable);
  executable->contents_ = std::make_unique<Contents>();
  executable->contents_->read_header(reader);
  executable->contents_->read_memory(reader);
  executable->contents_->read_steps(reader);
  if (reader.remaining() != 0) reader.fail("end", std::to_string(reader.remaining()) + " bytes too many");
  return executable;
}

}  // namespace neuron
