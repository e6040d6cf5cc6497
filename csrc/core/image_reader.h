// Reads the little-endian bytes of an executable image; every read is checked against the end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"

namespace neuron {

static_assert(std::endian::native == std::endian::little);

class ImageReader {
 public:
  explicit ImageReader(std::span<const std::byte> image) : image_(image) {}

  // what: the field, for the error's text.
  template <typename T>
  T number(const char* what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  template <typename T>
  std::vector<T> numbers(const char* what) {
    std::vector<T> values(count(sizeof(T), what));
    const std::span<const std::byte> bytes = take(values.size() * sizeof(T), what);
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  std::span<const std::byte> bytes(const char* what) { return take(number<std::uint64_t>(what), what); }

  std::string text(const char* what) {
    const std::span<const std::byte> content = bytes(what);
    return {reinterpret_cast<const char*>(content.data()), content.size()};
  }

  // The length of a list whose items have at least `item_bytes` bytes; a length that cannot fit is refused before anything is allocated.
  std::size_t count(std::size_t item_bytes, const char* what) {
    const auto items = number<std::uint32_t>(what);
    if (items > remaining() / item_bytes) fail(what, std::to_string(items) + " items do not fit");
    return items;
  }

  std::span<const std::byte> take(std::uint64_t bytes, const char* what) {
    if (bytes > remaining()) fail(what, std::to_string(bytes) + " bytes do not fit");
    const std::span<const std::byte> taken = image_.subspan(position_, bytes);
    position_ += bytes;
    return taken;
  }

  std::size_t remaining() const { return image_.size() - position_; }

  [[noreturn]] void fail(const char* what, const std::string& why) const {
    throw InvalidArgument("malformed executable image: " + std::string(what) + " near byte " + std::to_string(position_) + ": " + why);
  }

 private:
  std::span<const std::byte> image_;
  std::size_t position_ = 0;
};

}  // namespace neuron
