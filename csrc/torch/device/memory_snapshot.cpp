#include "torch/device/memory_snapshot.h"

#include <torch/csrc/profiler/combined_traceback.h>

#include <utility>
#include <vector>

#include "torch/device/device.h"
#include "torch/device/memory_history.h"

namespace neuron::torch_face {

namespace {

namespace py = pybind11;

// Turns gathered stacks into lists of {"filename", "line", "name"}, all in one call as symbolizing shares its work.
class FrameTable {
 public:
  // Call finish() before the list is read.
  py::list list_for(const std::shared_ptr<c10::GatheredContext>& context) {
    py::list frames;
    if (context) pending_.emplace_back(context, frames);
    return frames;
  }

  void finish() {
    std::vector<torch::CapturedTraceback*> tracebacks;
    for (const auto& [context, frames] : pending_) tracebacks.push_back(torch::getCapturedTracebackFromContext(context));
    const auto symbolized = torch::symbolize(tracebacks);
    std::vector<py::dict> all;
    for (const auto& frame : symbolized.all_frames) {
      py::dict entry;
      entry["filename"] = frame.filename;
      entry["line"] = frame.lineno;
      entry["name"] = frame.funcname;
      all.push_back(std::move(entry));
    }
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      for (const auto index : symbolized.tracebacks[i]) pending_[i].second.append(all[index]);
    }
  }

 private:
  std::vector<std::pair<std::shared_ptr<c10::GatheredContext>, py::list>> pending_;
};

const char* state_of(const BlockSnapshot& block) {
  if (block.allocated) return "active_allocated";
  return block.active ? "active_pending_free" : "inactive";
}

py::dict block_entry(const BlockSnapshot& block, FrameTable& frames) {
  py::dict entry;
  entry["address"] = block.address;
  entry["size"] = block.size;
  entry["requested_size"] = block.requested;
  entry["state"] = state_of(block);
  entry["frames"] = frames.list_for(block.allocated ? memory_history().frames_of(block.address) : nullptr);
  return entry;
}

py::dict segment_entry(int device, const SegmentSnapshot& segment, FrameTable& frames) {
  std::size_t allocated = 0, active = 0, requested = 0;
  py::list blocks;
  for (const auto& block : segment.blocks) {
    allocated += block.allocated ? block.size : 0;
    active += block.active ? block.size : 0;
    requested += block.allocated ? block.requested : 0;
    blocks.append(block_entry(block, frames));
  }
  py::dict entry;
  entry["device"] = device;
  entry["address"] = segment.address;
  entry["total_size"] = segment.size;
  entry["allocated_size"] = allocated;
  entry["active_size"] = active;
  entry["requested_size"] = requested;
  entry["stream"] = segment.stream;
  entry["segment_type"] = segment.small_pool ? "small" : "large";
  entry["segment_pool_id"] = py::make_tuple(0, 0);
  entry["is_expandable"] = false;
  entry["frames"] = py::list();
  entry["blocks"] = blocks;
  return entry;
}

// A free is asked for and completed at once for the visualizer: when the block is reused is the allocator's own affair.
std::vector<const char*> action_names(MemoryAction action) {
  switch (action) {
    case MemoryAction::kAllocate:
      return {"alloc"};
    case MemoryAction::kFree:
      return {"free_requested", "free_completed"};
    case MemoryAction::kOutOfMemory:
      return {"oom"};
  }
  return {};
}

void append_event(py::list& trace, const MemoryEvent& event, FrameTable& frames) {
  for (const char* action : action_names(event.action)) {
    py::dict entry;
    entry["action"] = action;
    // For an out of memory the visualizer wants the device's free bytes here.
    const bool failed = event.action == MemoryAction::kOutOfMemory;
    entry[failed ? "device_free" : "addr"] = failed ? core(event.device).allocator().free_bytes() : event.address;
    entry["size"] = event.bytes;
    entry["stream"] = event.stream;
    entry["time_us"] = event.microseconds;
    entry["frames"] = frames.list_for(event.frames);
    trace.append(entry);
  }
}

}  // namespace

py::dict memory_snapshot() {
  FrameTable frames;
  py::list segments;
  std::vector<py::list> traces(static_cast<std::size_t>(device_count()));
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    if (!core_started(device)) continue;
    for (const auto& segment : core(device).allocator().snapshot()) segments.append(segment_entry(device, segment, frames));
  }
  for (const auto& event : memory_history().events()) append_event(traces[static_cast<std::size_t>(event.device)], event, frames);
  frames.finish();
  py::list device_traces;
  for (const auto& trace : traces) device_traces.append(trace);
  py::dict settings;
  settings["PYTORCH_ALLOC_CONF"] = "";
  py::dict result;
  result["segments"] = segments;
  result["device_traces"] = device_traces;
  result["allocator_settings"] = settings;
  result["external_annotations"] = py::list();
  return result;
}

}  // namespace neuron::torch_face
