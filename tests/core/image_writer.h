// Writes executable images as compiler/executable.py does; the machine code is assembled by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/executable.h"

struct ImageStep {
  bool library = false;
  std::string name;  // of the kernel, or the library symbol
  std::uint64_t entry = 0;
  std::vector<neuron::BufferRef> buffers;
  std::vector<std::int64_t> params;
  std::int64_t range = 0, grain = 1 << 20;
  std::vector<neuron::LibraryTensor> tensors;  // library: one per buffer
  std::vector<double> floats;
  std::vector<std::uint32_t> scalars;
};

struct Image {
  std::string name = "test::op";
  std::string signature = "test::op(f32[4])";
  std::vector<std::uint64_t> input_bytes, output_bytes;
  std::vector<std::int32_t> donations;  // empty: none
  std::uint32_t scalar_count = 0;
  std::uint64_t scratch_bytes = 0, work = 0;
  bool parallel = false;
  std::vector<std::uint8_t> constants, code;
  std::vector<std::string> messages;
  std::vector<ImageStep> steps;

  std::vector<std::byte> encode() const;
  std::shared_ptr<const neuron::Executable> load() const { return neuron::Executable::parse(encode()); }
};

class ImageWriter {
 public:
  template <typename T>
  void number(T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    data.insert(data.end(), bytes, bytes + sizeof(T));
  }
  template <typename T>
  void blob(const T& content) {
    number<std::uint64_t>(content.size());
    const auto* bytes = reinterpret_cast<const std::byte*>(content.data());
    data.insert(data.end(), bytes, bytes + content.size());
  }
  template <typename T>
  void list(const std::vector<T>& values) {
    number<std::uint32_t>(values.size());
    for (const T& value : values) number(value);
  }
  void buffer(const neuron::BufferRef& ref) {
    number(static_cast<std::uint8_t>(ref.space));
    number(ref.index);
    number(ref.offset);
  }
  std::vector<std::byte> data;
};

inline void write_step(ImageWriter& writer, const ImageStep& step) {
  writer.number<std::uint8_t>(step.library ? 1 : 0);
  writer.blob(step.name);
  if (!step.library) writer.number(step.entry);
  writer.number<std::uint32_t>(step.buffers.size());
  for (std::size_t i = 0; i < step.buffers.size(); ++i) {
    writer.buffer(step.buffers[i]);
    if (!step.library) continue;
    writer.number(static_cast<std::uint8_t>(step.tensors[i].dtype));
    writer.list(step.tensors[i].sizes);
    writer.list(step.tensors[i].strides);
  }
  writer.list(step.params);
  if (step.library) {
    writer.list(step.floats);
    writer.list(step.scalars);
  } else {
    writer.number(step.range);
    writer.number(step.grain);
  }
}

inline std::vector<std::byte> Image::encode() const {
  ImageWriter writer;
  for (const char letter : std::string("NEURONX1")) writer.number(letter);
  writer.blob(name);
  writer.blob(signature);
  writer.list(input_bytes);
  writer.list(output_bytes);
  writer.list(donations.empty() ? std::vector<std::int32_t>(output_bytes.size(), -1) : donations);
  writer.number(scalar_count);
  writer.number(scratch_bytes);
  writer.number(work);
  writer.number<std::uint8_t>(parallel);
  writer.blob(constants);
  writer.blob(code);
  writer.number<std::uint32_t>(messages.size());
  for (const std::string& message : messages) writer.blob(message);
  writer.number<std::uint32_t>(steps.size());
  for (const ImageStep& step : steps) write_step(writer, step);
  return std::move(writer.data);
}

namespace machine_code {

// int32 kernel(char* const* buffers [rdi], const int64_t* params [rsi], const uint64_t* scalars [rdx], int64_t begin [rcx], int64_t end
// [r8]): for i in [begin, end): int32 buffers[1][i] = int32 buffers[0][i] + int32 params[0]
inline const std::vector<std::uint8_t> kAddParam = {
    0x48, 0x8B, 0x07,        // mov rax, [rdi]
    0x48, 0x8B, 0x7F, 0x08,  // mov rdi, [rdi + 8]
    0x48, 0x8B, 0x36,        // mov rsi, [rsi]
    0x4C, 0x39, 0xC1,        // cmp rcx, r8
    0x7D, 0x10,              // jge done
    0x8B, 0x14, 0x88,        // loop: mov edx, [rax + 4 rcx]
    0x01, 0xF2,              // add edx, esi
    0x89, 0x14, 0x8F,        // mov [rdi + 4 rcx], edx
    0x48, 0xFF, 0xC1,        // inc rcx
    0x4C, 0x39, 0xC1,        // cmp rcx, r8
    0x7C, 0xF0,              // jl loop
    0x31, 0xC0,              // done: xor eax, eax
    0xC3,                    // ret
};

// return int32 params[0]
inline const std::vector<std::uint8_t> kReturnParam = {0x48, 0x8B, 0x06, 0xC3};  // mov rax, [rsi]; ret

// int64 buffers[0][0] = scalars[0]; return 0
inline const std::vector<std::uint8_t> kStoreScalar = {
    0x48, 0x8B, 0x07,  // mov rax, [rdi]
    0x48, 0x8B, 0x12,  // mov rdx, [rdx]
    0x48, 0x89, 0x10,  // mov [rax], rdx
    0x31, 0xC0,        // xor eax, eax
    0xC3,              // ret
};

}  // namespace machine_code

// out[i] = in[i] + amount over `count` int32.
inline Image add_image(std::int64_t count, std::int32_t amount) {
  Image image;
  image.name = "test::add";
  image.signature = "test::add(i32[" + std::to_string(count) + "])";
  image.input_bytes = image.output_bytes = {static_cast<std::uint64_t>(count) * 4};
  image.code = machine_code::kAddParam;
  ImageStep step;
  step.name = "add";
  step.buffers = {{neuron::Space::kInput, 0, 0}, {neuron::Space::kOutput, 0, 0}};
  step.params = {amount};
  step.range = count;
  image.steps = {step};
  return image;
}

// Fails with the message.
inline Image failing_image(const std::string& message) {
  Image image;
  image.name = "test::fail";
  image.signature = "test::fail(i64[3])";
  image.code = machine_code::kReturnParam;
  image.messages = {"another message", message};
  ImageStep step;
  step.name = "fail";
  step.params = {2};
  image.steps = {step};
  return image;
}
