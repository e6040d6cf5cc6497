// Errors of the runtime. The torch face translates them to PyTorch's exception types.
#pragma once

#include <stdexcept>
#include <string>

namespace neuron {

// Bad argument: names the thing, its value and what is allowed. Nothing was changed.
class InvalidArgument : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The device's memory cannot hold a request, even after the cache was freed.
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A command failed while it ran asynchronously; raised at the next synchronisation of its stream.
class CommandError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace neuron
