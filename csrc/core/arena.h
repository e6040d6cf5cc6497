// The device memory of one core: a range of addresses, of which segments are committed and released within a real capacity.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace neuron {

// Segments are placed and sized in this unit: the huge page of x86-64.
inline constexpr std::size_t kSegmentUnit = std::size_t{2} << 20;

class Arena {
 public:
  // Reserves addresses only; memory is taken from the system segment by segment. protect: committed memory is readable and writable
  // only while a MemoryAccess lives. Throws OutOfMemory if the address range cannot be had.
  Arena(std::size_t capacity, bool protect);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Zeroed memory; bytes is a multiple of kSegmentUnit. Null if the capacity or the host's memory does not allow it.
  void* commit(std::size_t bytes);
  // Gives a committed segment back. Nothing may use it any more.
  void release(void* address, std::size_t bytes) noexcept;

  bool contains(const void* pointer) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    return address >= base_ && address - base_ < span_;
  }
  std::uintptr_t base() const noexcept { return base_; }
  std::size_t span() const noexcept { return span_; }  // bytes of addresses
  std::size_t capacity() const noexcept { return capacity_; }
  std::size_t committed() const noexcept { return committed_bytes_.load(std::memory_order_relaxed); }

 private:
  friend class MemoryAccess;
  void set_protection(int protection) noexcept;  // of everything committed

  const std::size_t capacity_;
  const bool protect_;
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  std::uintptr_t base_ = 0;
  std::size_t span_ = 0;

  mutable std::mutex mutex_;                         // guards the maps
  std::map<std::uintptr_t, std::size_t> holes_;      // addresses not committed
  std::map<std::uintptr_t, std::size_t> committed_;  // segments
  std::atomic<std::size_t> committed_bytes_ = 0;
};

// While one lives, on any thread, the memory of all protected arenas is accessible. Costs one load where none is protected.
class MemoryAccess {
 public:
  MemoryAccess() noexcept {
    if (any_protected_.load(std::memory_order_relaxed)) open();
  }
  ~MemoryAccess() {
    if (opened_) close();
  }
  MemoryAccess(const MemoryAccess&) = delete;
  MemoryAccess& operator=(const MemoryAccess&) = delete;

 private:
  friend class Arena;
  void open() noexcept;
  void close() noexcept;
  // Relaxed is enough: an arena is created before any pointer into it exists.
  inline static std::atomic<bool> any_protected_ = false;
  bool opened_ = false;
};

}  // namespace neuron
