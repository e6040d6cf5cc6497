// The runtime's parallel work runs on ATen's intra-op threads, with the thread count of the thread that queued it.
#include <ATen/Parallel.h>

#include "core/core.h"
#include "core/executable.h"

namespace neuron::torch_face {

namespace {

void parallel_for(std::int64_t range, std::int64_t grain, void (*body)(void*, std::int64_t, std::int64_t), void* context) {
  at::parallel_for(0, range, grain, [=](std::int64_t begin, std::int64_t end) { body(context, begin, end); });
}

void set_thread_count(int threads) { at::set_num_threads(threads); }

[[maybe_unused]] const bool installed = (set_parallel_for(parallel_for), set_thread_count_setter(set_thread_count), true);

}  // namespace

}  // namespace neuron::torch_face
