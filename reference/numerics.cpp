#include "reference/numerics.h"

namespace attest {

std::string_view name_of(Contract c) { return c == Contract::strict ? "strict" : "declared"; }

Numerics strict(DType type) {
  Numerics n;
  n.p_type = type;
  n.aligned_blocks = type != DType::f32;  // tensor cores multiply 16-bit inputs; f32 stays f32
  return n;
}

}  // namespace attest
