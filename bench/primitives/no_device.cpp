// A build without CUDA has no device.
#include "bench/primitives/evaluate.h"

namespace attest::primitives {

const char* evaluate_on_device(Function, uint32_t, uint32_t, double*) { return "built without CUDA"; }
const char* device_name() { return ""; }

}  // namespace attest::primitives
