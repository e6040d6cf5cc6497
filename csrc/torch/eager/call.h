// What the dispatcher reads off a call: its cache key, and what a launch needs (addresses, scalar values, device).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

namespace neuron::torch_face {

// A growing array that is cleared without giving its memory back, for per-thread reuse. Items are trivially copyable.
template <typename Item>
class Scratch {
 public:
  void clear() { size_ = 0; }
  std::size_t size() const { return size_; }
  Item& operator[](std::size_t index) { return items_[index]; }
  const Item& operator[](std::size_t index) const { return items_[index]; }
  std::span<const Item> span() const { return {items_.get(), size_}; }
  void push(Item item) { *extend(1) = item; }
  // Room for `count` more items, to be written by the caller.
  Item* extend(std::size_t count) {
    if (size_ + count > capacity_) [[unlikely]]
      grow(size_ + count);
    Item* start = items_.get() + size_;
    size_ += count;
    return start;
  }

 private:
  void grow(std::size_t needed) {
    capacity_ = needed * 2 + 64;
    auto larger = std::make_unique_for_overwrite<Item[]>(capacity_);
    std::copy_n(items_.get(), size_, larger.get());
    items_ = std::move(larger);
  }

  std::unique_ptr<Item[]> items_;
  std::size_t size_ = 0, capacity_ = 0;
};

enum class ScalarKind : std::uint8_t { kAbsent, kInt, kDouble };

struct ScalarValue {
  std::uint64_t bits = 0;
  ScalarKind kind = ScalarKind::kAbsent;
};

// A tensor or scalar position of the call; lists contribute one position per element, everything else one per argument.
// Undefined tensors and scalars have a null tensor, tensors an unused value. Counting is determined by the key.
struct Position {
  const at::Tensor* tensor;
  void* data;
  ScalarValue scalar;
  bool written;
};

struct Call {
  Scratch<std::uint64_t> key;
  Scratch<Position> positions;
  std::uint64_t hash;
  c10::DeviceIndex device;       // of the tensors, else of the device argument, else the current one
  const c10::IValue* generator;  // null if none was given
};

// The calling thread's reading of its current call. A call that is made while another is read (on a miss) is read after it is done with.
Call& this_call();

}  // namespace neuron::torch_face
