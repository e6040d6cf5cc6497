#include "torch/eager/cache.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace neuron::torch_face {
namespace {

// One thread's read sections: `sequence` is odd while it is in one.
struct Reader {
  std::atomic<std::uint64_t> sequence{0};
  int depth = 0;
};

// All readers, and those whose thread has ended. Lives to the end of the process, as threads may end after static destruction.
struct Readers {
  std::mutex mutex;
  std::vector<std::unique_ptr<Reader>> all;
  std::vector<Reader*> unused;
};

Readers& readers() {
  static auto* instance = new Readers;
  return *instance;
}

constinit thread_local Reader* this_reader = nullptr;

Reader* take_reader() {
  std::lock_guard lock(readers().mutex);
  if (readers().unused.empty()) return readers().all.emplace_back(std::make_unique<Reader>()).get();
  Reader* reader = readers().unused.back();
  readers().unused.pop_back();
  return reader;
}

Reader& enter_thread() {
  thread_local struct AtThreadEnd {
    ~AtThreadEnd() {
      std::lock_guard lock(readers().mutex);
      readers().unused.push_back(std::exchange(this_reader, nullptr));
    }
  } at_thread_end;
  this_reader = take_reader();
  return *this_reader;
}

// Returns when every section that was open in another thread at the time of the call has ended.
void wait_for_readers() {
  std::vector<const Reader*> others;
  {
    std::lock_guard lock(readers().mutex);
    for (const auto& reader : readers().all) others.push_back(reader.get());
  }
  for (const Reader* reader : others) {
    if (reader == this_reader) continue;
    const std::uint64_t seen = reader->sequence.load(std::memory_order_seq_cst);
    while (seen % 2 == 1 && reader->sequence.load(std::memory_order_acquire) == seen) std::this_thread::yield();
  }
}

}  // namespace

// The odd number must be visible to a writer before the table is read here; the writer replaces the table before it looks at
// the numbers. Both sides are sequentially consistent, so one of them sees the other.
ReadSection::ReadSection() {
  Reader& reader = this_reader ? *this_reader : enter_thread();
  if (reader.depth++ == 0) reader.sequence.exchange(reader.sequence.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
}

ReadSection::~ReadSection() {
  Reader& reader = *this_reader;
  if (--reader.depth == 0) reader.sequence.store(reader.sequence.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// Open addressing with linear probing, at most half full. Immutable once published, but for slots that go from null to an entry.
struct ProgramCache::Table {
  struct Slot {
    std::atomic<std::uint64_t> hash{0};
    std::atomic<const CacheEntry*> entry{nullptr};
  };

  explicit Table(std::size_t capacity) : mask(capacity - 1), slots(new Slot[capacity]) {}

  void put(const CacheEntry* entry) const {
    std::size_t index = entry->hash & mask;
    while (slots[index].entry.load(std::memory_order_relaxed) != nullptr) index = (index + 1) & mask;
    slots[index].hash.store(entry->hash, std::memory_order_relaxed);
    slots[index].entry.store(entry, std::memory_order_release);  // publishes the entry's contents and the slot's hash
  }

  std::size_t mask;
  std::unique_ptr<Slot[]> slots;
};

ProgramCache::ProgramCache() {
  tables_.push_back(std::make_unique<Table>(8));
  table_.store(tables_.back().get(), std::memory_order_relaxed);
}

ProgramCache::~ProgramCache() = default;

const CacheEntry* ProgramCache::find(std::span<const std::uint64_t> key, std::uint64_t hash) const {
  const Table& table = *table_.load(std::memory_order_seq_cst);
  for (std::size_t index = hash & table.mask;; index = (index + 1) & table.mask) {
    const CacheEntry* entry = table.slots[index].entry.load(std::memory_order_acquire);
    if (entry == nullptr) return nullptr;
    if (table.slots[index].hash.load(std::memory_order_relaxed) == hash && std::ranges::equal(entry->key, key)) return entry;
  }
}

void ProgramCache::insert(std::unique_ptr<const CacheEntry> entry) {
  std::lock_guard lock(mutex_);
  const ReadSection section;
  if (find(entry->key, entry->hash) != nullptr) return;
  if ((entries_.size() + 1) * 2 > tables_.back()->mask + 1) {
    auto larger = std::make_unique<Table>((tables_.back()->mask + 1) * 2);
    for (const auto& known : entries_) larger->put(known.get());
    tables_.push_back(std::move(larger));
    table_.store(tables_.back().get(), std::memory_order_seq_cst);
  }
  tables_.back()->put(entry.get());
  entries_.push_back(std::move(entry));
}

void ProgramCache::clear() {
  std::vector<std::unique_ptr<const Table>> old_tables;
  std::vector<std::unique_ptr<const CacheEntry>> old_entries;
  {
    std::lock_guard lock(mutex_);
    old_tables.swap(tables_);
    old_entries.swap(entries_);
    tables_.push_back(std::make_unique<Table>(8));
    table_.store(tables_.back().get(), std::memory_order_seq_cst);
  }
  wait_for_readers();
}

std::size_t ProgramCache::program_count() const {
  std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(entries_, [](const auto& entry) { return entry->plan != nullptr; }));
}

}  // namespace neuron::torch_face
