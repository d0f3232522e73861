// The reader of .safetensors cases, on any bytes: one line of refusal, or a valid case that both writers keep.
#include "fuzz/accepted_case.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    attest::fuzz::check_accepted(attest::parse_safetensors_case({data, size}, "input.safetensors"));
  } catch (const attest::CaseError& e) {
    attest::fuzz::check_refusal(e);
  }
  return 0;
}
