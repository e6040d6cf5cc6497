#include "core/code_region.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/error.h"

namespace neuron {

CodeRegion::CodeRegion(std::span<const std::byte> code) : bytes_(code.size()) {
  if (bytes_ == 0) return;
  pages_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool mapped = pages_ != MAP_FAILED;
  if (mapped) {
    std::memcpy(pages_, code.data(), bytes_);
    __builtin___clear_cache(static_cast<char*>(pages_), static_cast<char*>(pages_) + bytes_);
  }
  if (!mapped || mprotect(pages_, bytes_, PROT_READ | PROT_EXEC) != 0) {
    const int error = errno;
    if (mapped) munmap(pages_, bytes_);
    throw InvalidArgument("the host refused " + std::to_string(bytes_) + " bytes of executable memory: " + std::strerror(error));
  }
}

CodeRegion::~CodeRegion() {
  if (bytes_ != 0) munmap(pages_, bytes_);
}

}  // namespace neuron
