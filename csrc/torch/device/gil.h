// Waiting for the device without Python's lock.
#pragma once

#include <Python.h>

namespace neuron::torch_face {

// Releases the GIL within the scope if the calling thread holds it. PyTorch's bindings have mostly released it already; a wait
// that is reached by another way must not keep it, as what runs on the device's threads may need it.
class GilRelease {
 public:
  GilRelease() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~GilRelease() {
    if (state_) PyEval_RestoreThread(state_);
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace neuron::torch_face
