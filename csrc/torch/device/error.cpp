#include "torch/device/error.h"

#include <string>

namespace neuron::torch_face {

void rethrow_translated() {
  try {
    throw;
  } catch (const OutOfMemory& error) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
  } catch (const CommandError& error) {
    throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, kCommandFailed, error.what());
  } catch (const InvalidArgument& error) {
    TORCH_CHECK(false, error.what());
  }
}

}  // namespace neuron::torch_face
