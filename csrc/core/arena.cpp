#include "core/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "core/error.h"

namespace neuron {
namespace {

// Addresses are free where memory is not: with more of them than capacity, long-lived segments do not keep a large one from finding room.
constexpr std::size_t kAddressesPerByte = 4;

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// All protected arenas and how many MemoryAccess objects live. Lock order: this mutex, then an arena's.
struct Protection {
  std::mutex mutex;
  std::vector<Arena*> arenas;
  int accesses = 0;
};

Protection& protection() {
  static auto* const instance = new Protection;  // leaked: commands may still run while statics are destroyed
  return *instance;
}

}  // namespace

Arena::Arena(std::size_t capacity, bool protect)
    : capacity_(capacity), protect_(protect), span_(round_up(capacity, kSegmentUnit) * kAddressesPerByte) {
  mapping_bytes_ = span_ + kSegmentUnit;
  mapping_ = mmap(nullptr, mapping_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    throw OutOfMemory("device memory of " + std::to_string(capacity) + " bytes: the host refused an address range of " +
                      std::to_string(mapping_bytes_) +
                      " bytes; raise the address space limit (ulimit -v) or set "
                      "TORCH_NEURONX_DEVICE_MEMORY lower");
  }
  // A forked child cannot use the device; without this every write of the parent would copy a page as long as the child lives.
  madvise(mapping_, mapping_bytes_, MADV_DONTFORK);
  base_ = round_up(reinterpret_cast<std::uintptr_t>(mapping_), kSegmentUnit);
  holes_.emplace(base_, span_);
  if (protect_) {
    std::lock_guard lock(protection().mutex);
    protection().arenas.push_back(this);
    MemoryAccess::any_protected_.store(true, std::memory_order_relaxed);
  }
}

Arena::~Arena() {
  if (protect_) {
    std::lock_guard lock(protection().mutex);
    std::erase(protection().arenas, this);
    MemoryAccess::any_protected_.store(!protection().arenas.empty(), std::memory_order_relaxed);
  }
  munmap(mapping_, mapping_bytes_);
}

void* Arena::commit(std::size_t bytes) {
  std::unique_lock<std::mutex> access_lock;
  if (protect_) access_lock = std::unique_lock(protection().mutex);
  std::lock_guard lock(mutex_);
  if (bytes > capacity_ || committed() > capacity_ - bytes) return nullptr;
  const auto hole = std::ranges::find_if(holes_, [bytes](const auto& candidate) { return candidate.second >= bytes; });
  if (hole == holes_.end()) return nullptr;
  const auto [address, hole_bytes] = *hole;
  void* const segment = reinterpret_cast<void*>(address);
  const bool readable = !protect_ || protection().accesses > 0;
  if (readable && mprotect(segment, bytes, PROT_READ | PROT_WRITE) != 0) return nullptr;
  // Small segments stay on small pages: a process with a few tiny tensors should not pay 2 MiB of zeroing.
  if (bytes > kSegmentUnit) madvise(segment, bytes, MADV_HUGEPAGE);
  holes_.erase(hole);
  if (hole_bytes > bytes) holes_.emplace(address + bytes, hole_bytes - bytes);
  committed_.emplace(address, bytes);
  committed_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return segment;
}

void Arena::release(void* pointer, std::size_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  madvise(pointer, bytes, MADV_DONTNEED);
  mprotect(pointer, bytes, PROT_NONE);
  auto address = reinterpret_cast<std::uintptr_t>(pointer);
  committed_.erase(address);
  committed_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  auto next = holes_.lower_bound(address);
  if (next != holes_.end() && address + bytes == next->first) {
    bytes += next->second;
    next = holes_.erase(next);
  }
  if (next != holes_.begin() && std::prev(next)->first + std::prev(next)->second == address) {
    std::prev(next)->second += bytes;
  } else {
    holes_.emplace_hint(next, address, bytes);
  }
}

void Arena::set_protection(int flags) noexcept {
  std::lock_guard lock(mutex_);
  for (auto segment = committed_.begin(); segment != committed_.end();) {
    const std::uintptr_t begin = segment->first;
    std::uintptr_t end = begin;
    for (; segment != committed_.end() && segment->first == end; ++segment) end += segment->second;
    mprotect(reinterpret_cast<void*>(begin), end - begin, flags);
  }
}

void MemoryAccess::open() noexcept {
  opened_ = true;
  std::lock_guard lock(protection().mutex);
  if (protection().accesses++ == 0) {
    for (Arena* arena : protection().arenas) arena->set_protection(PROT_READ | PROT_WRITE);
  }
}

void MemoryAccess::close() noexcept {
  std::lock_guard lock(protection().mutex);
  if (--protection().accesses == 0) {
    for (Arena* arena : protection().arenas) arena->set_protection(PROT_NONE);
  }
}

}  // namespace neuron
