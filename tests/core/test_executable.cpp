#include <cstdlib>
#include <random>
#include <thread>

#include "check.h"
#include "core/error.h"
#include "core/executable.h"
#include "image_writer.h"
#include "random_program.h"

using neuron::BufferRef;
using neuron::DType;
using neuron::Executable;
using neuron::InvalidArgument;
using neuron::LibraryCall;
using neuron::Space;

namespace {

// out f32[n] = operand f32[n] * floats[0] + scalars[0], or without the operand just that.
void scale(const LibraryCall& call) {
  const neuron::LibraryTensor& out = call.tensors[0];
  const neuron::LibraryTensor& in = call.tensors[1];
  if (call.ints[0] < 0) throw std::runtime_error("scale was asked to fail");
  for (std::int64_t i = 0; i < out.sizes[0]; ++i) {
    const float operand = in.dtype == DType::kAbsent ? 0.0F : static_cast<const float*>(in.data)[i * in.strides[0]];
    static_cast<float*>(out.data)[i] = operand * static_cast<float>(call.floats[0]) + static_cast<float>(call.scalars[0]);
  }
}

const neuron::LibraryRegistration registration("test_scale", scale);

// Notes where its tensor lies.
const void* looked_at = nullptr;
const neuron::LibraryRegistration look("test_look", [](const LibraryCall& call) { looked_at = call.tensors[0].data; });

Image scale_image(bool with_operand, std::int64_t mode) {
  Image image;
  image.input_bytes = {16};
  image.output_bytes = {8};
  image.scalar_count = 2;
  ImageStep step;
  step.library = true;
  step.name = "test_scale";
  step.buffers = {{Space::kOutput, 0, 0}, {with_operand ? Space::kInput : Space::kConstant, 0, 0}};
  step.tensors = {{nullptr, DType::kFloat32, {2}, {1}}, {nullptr, with_operand ? DType::kFloat32 : DType::kAbsent, {2}, {2}}};
  step.params = {mode};  // ints
  step.floats = {0.5};
  step.scalars = {1};
  image.steps = {step};
  return image;
}

// One image with everything in it: two kernels through scratch and constants, a library step, messages, a donation.
Image full_image() {
  Image image = add_image(4, 10);
  image.input_bytes = {16, 16};
  image.donations = {1};
  image.scalar_count = 2;
  image.scratch_bytes = 64;
  image.constants = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0};
  image.messages = {"first", "second"};
  image.steps[0].buffers = {{Space::kConstant, 0, 0}, {Space::kScratch, 0, 16}};
  image.steps.push_back(image.steps[0]);
  image.steps[1].buffers = {{Space::kScratch, 0, 16}, {Space::kOutput, 0, 0}};
  ImageStep library = scale_image(true, 0).steps[0];
  library.buffers = {{Space::kScratch, 0, 0}, {Space::kInput, 0, 0}};
  image.steps.push_back(library);
  return image;
}

template <typename Change>
std::string refused(Change change) {
  Image image = full_image();
  change(image);
  return THROWN(InvalidArgument, image.load());
}

// Hands every task exactly `grain` iterations, each in a thread of its own.
void thread_per_task(std::int64_t range, std::int64_t grain, void (*body)(void*, std::int64_t, std::int64_t), void* context) {
  std::vector<std::thread> threads;
  for (std::int64_t begin = 0; begin < range; begin += grain) {
    threads.emplace_back(body, context, begin, std::min(range, begin + grain));
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST(executable_describes_itself) {
  const auto executable = full_image().load();
  CHECK_EQUAL(executable->name(), "test::add");
  CHECK_EQUAL(executable->signature(), "test::add(i32[4])");
  CHECK(executable->input_bytes().size() == 2 && executable->output_bytes()[0] == 16 && executable->donations()[0] == 1);
  CHECK(executable->scalar_count() == 2 && executable->scratch_bytes() == 64 && executable->work() == 0 && !executable->parallel());
  CHECK_EQUAL(executable->steps().size(), 3U);
  const auto& kernel = std::get<neuron::KernelStep>(executable->steps()[1]);
  CHECK(kernel.name == "add" && kernel.range == 4 && kernel.params == std::vector<std::int64_t>{10});
  CHECK(kernel.buffers[0].space == Space::kScratch && kernel.buffers[0].offset == 16);
}

TEST(executable_runs_library_steps) {
  float in[4] = {2, 0, 6, 0}, out[2] = {};
  void* const buffers[] = {in, out};
  const auto with_operand = scale_image(true, 0).load();
  for (int i = 0; i < 3; ++i) {
    with_operand->run(buffers, nullptr, std::vector<std::uint64_t>{0, 100});
    CHECK(out[0] == 101 && out[1] == 103);
  }
  scale_image(false, 0).load()->run(buffers, nullptr, std::vector<std::uint64_t>{0, 7});
  CHECK(out[0] == 7 && out[1] == 7);
  const auto failing = scale_image(true, -1).load();
  CHECK_EQUAL(THROWN(std::runtime_error, failing->run(buffers, nullptr, std::vector<std::uint64_t>{0, 7})), "scale was asked to fail");
}

#if defined(__x86_64__)

TEST(executable_runs_kernels_through_scratch_and_constants) {
  float in[4] = {}, out_of_library[16] = {};
  std::int32_t out[4] = {};
  void* const buffers[] = {in, in, out};
  full_image().load()->run(buffers, out_of_library, std::vector<std::uint64_t>{0, 0});
  for (int i = 0; i < 4; ++i) CHECK_EQUAL(out[i], i + 21);
}

TEST(executable_aligns_constants) {
  for (int repeat = 0; repeat < 8; ++repeat) {
    Image image = full_image();
    image.constants.resize(16 + repeat);
    image.steps[2].name = "test_look";
    image.steps[2].buffers[0] = {Space::kConstant, 0, 0};
    image.steps[2].tensors[0] = {nullptr, DType::kInt8, {16}, {1}};
    float in[4] = {}, scratch[16] = {}, out[4] = {};
    void* const buffers[] = {in, in, out};
    image.load()->run(buffers, scratch, std::vector<std::uint64_t>{0, 0});
    CHECK_EQUAL(reinterpret_cast<std::uintptr_t>(looked_at) % 64, 0U);
  }
}

TEST(executable_spreads_kernels_beyond_the_grain) {
  neuron::set_parallel_for(thread_per_task);
  Image image = add_image(1000, 5);
  image.steps[0].grain = 128;
  std::vector<std::int32_t> in(1000), out(1000);
  for (int i = 0; i < 1000; ++i) in[i] = i;
  void* const buffers[] = {in.data(), out.data()};
  image.load()->run(buffers, nullptr, {});
  for (int i = 0; i < 1000; ++i) CHECK_EQUAL(out[i], i + 5);
}

TEST(executable_reports_a_kernels_message) {
  const auto failing = failing_image("index 7 is out of range").load();
  CHECK_EQUAL(THROWN(std::runtime_error, failing->run({}, nullptr, {})), "index 7 is out of range");
  Image unknown = failing_image("");
  unknown.steps[0].params = {3};
  CHECK_EQUAL(THROWN(std::runtime_error, unknown.load()->run({}, nullptr, {})), "fail returned the unknown status 3");
  neuron::set_parallel_for(thread_per_task);
  Image spread = failing_image("in a task");
  spread.steps[0].range = 10;
  spread.steps[0].grain = 2;
  CHECK_EQUAL(THROWN(std::runtime_error, spread.load()->run({}, nullptr, {})), "in a task");
}

TEST(executable_passes_scalars_to_kernels) {
  Image image;
  image.output_bytes = {8};
  image.scalar_count = 1;
  image.code = machine_code::kStoreScalar;
  ImageStep step;
  step.name = "store";
  step.buffers = {{Space::kOutput, 0, 0}};
  step.range = 1;
  image.steps = {step};
  std::uint64_t out = 0;
  void* const buffers[] = {&out};
  image.load()->run(buffers, nullptr, std::vector<std::uint64_t>{0x123456789});
  CHECK_EQUAL(out, 0x123456789U);
}

TEST(executable_takes_more_buffers_than_fit_on_the_stack) {
  Image image = add_image(1, 1);
  image.input_bytes.assign(100, 4);
  image.steps[0].buffers.insert(image.steps[0].buffers.end(), 98, {Space::kInput, 99, 0});
  std::int32_t in = 41, out = 0;
  std::vector<void*> buffers(100, &in);
  buffers.push_back(&out);
  image.load()->run(buffers, nullptr, {});
  CHECK_EQUAL(out, 42);
}

#endif

TEST(executable_refuses_references_out_of_range) {
  CHECK_CONTAINS(refused([](Image& image) { image.steps[0].buffers[0].index = 1; }), "buffer index near byte");
  CHECK_CONTAINS(refused([](Image& image) { image.steps[1].buffers[1].index = 1; }), "1 with 1 buffers in space 1");
  CHECK_CONTAINS(refused([](Image& image) { image.steps[2].buffers[1].index = 2; }), "2 with 2 buffers in space 0");
  CHECK_CONTAINS(refused([](Image& image) { image.steps[0].buffers[1].offset = 65; }), "65 in a buffer of 64 bytes");
  CHECK_CONTAINS(refused([](Image& image) { image.steps[0].buffers[0].space = static_cast<Space>(4); }), "4 is not 0 to 3");
  CHECK_CONTAINS(refused([](Image& image) { image.steps[0].entry = image.code.size(); }), "kernel entry");
  CHECK_CONTAINS(refused([](Image& image) { image.steps[0].range = -1; }), "kernel range");
  CHECK_CONTAINS(refused([](Image& image) { image.steps[0].grain = -1; }), "kernel grain");
  CHECK_CONTAINS(refused([](Image& image) { image.donations = {2}; }), "donations");
  CHECK_CONTAINS(refused([](Image& image) { image.donations = {-1, -1}; }), "not one per output");
  CHECK_CONTAINS(refused([](Image& image) { image.steps[2].scalars = {2}; }), "slot 2 of 2");
  CHECK_CONTAINS(refused([](Image& image) { image.steps[2].name = "no_such"; }), "'no_such' is not registered");
}

TEST(executable_refuses_tensors_behind_the_end_of_their_buffer) {
  const auto tensor = [](std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides, DType dtype = DType::kFloat32) {
    return [=](Image& image) { image.steps[2].tensors[1] = {nullptr, dtype, sizes, strides}; };
  };
  for (const auto& fitting : {tensor({4}, {1}), tensor({2, 2}, {2, 1}), tensor({0}, {100}), tensor({9}, {0}),
                              tensor({16}, {1}, DType::kBool), tensor({}, {}, DType::kComplex128), tensor({1}, {INT64_MAX})}) {
    Image image = full_image();
    fitting(image);
    image.load();
  }
  for (const auto& beyond : {tensor({5}, {1}), tensor({2, 2}, {3, 1}), tensor({2}, {4}), tensor({3}, {INT64_MAX}),
                             tensor({INT64_MAX, INT64_MAX}, {INT64_MAX, INT64_MAX}), tensor({2}, {1}, DType::kComplex128)}) {
    CHECK_CONTAINS(refused(beyond), "elements lie behind the end of the buffer");
  }
  CHECK_CONTAINS(refused(tensor({-1}, {1})), "tensor size");
  CHECK_CONTAINS(refused(tensor({1}, {-1})), "tensor stride");
  CHECK_CONTAINS(refused(tensor({1}, {1, 1})), "not as many as sizes");
  CHECK_CONTAINS(refused(tensor({1}, {1}, static_cast<DType>(17))), "17 is no dtype code");
}

TEST(executable_refuses_every_truncation) {
  const std::vector<std::byte> image = full_image().encode();
  Executable::parse(image);
  for (std::size_t size = 0; size < image.size(); ++size) {
    // A copy of exactly that size, so that a read behind the end is seen by the sanitizer.
    const std::vector<std::byte> part(image.begin(), image.begin() + size);
    CHECK_CONTAINS(THROWN(InvalidArgument, Executable::parse(part)), "malformed executable image");
  }
  std::vector<std::byte> longer = image;
  longer.push_back(std::byte{0});
  CHECK_CONTAINS(THROWN(InvalidArgument, Executable::parse(longer)), "1 bytes too many");
}

TEST(executable_loads_or_refuses_random_damage) {
  const std::vector<std::byte> image = full_image().encode();
  std::mt19937 random(1);
  int refusals = 0;
  for (int program = 0; program < 100 * random_programs; ++program) {
    std::vector<std::byte> damaged = image;
    const unsigned flips = 1 + random() % 4;
    for (unsigned flip = 0; flip < flips; ++flip) damaged[random() % image.size()] = static_cast<std::byte>(random());
    try {
      Executable::parse(damaged);
    } catch (const InvalidArgument&) {
      ++refusals;
    }
  }
  CHECK(refusals > 50 * random_programs);
}
