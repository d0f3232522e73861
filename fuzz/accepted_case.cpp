#include "fuzz/accepted_case.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fuzz/feedback.h"

namespace attest::fuzz {

namespace {

constexpr size_t kWrittenBytes = 1 << 16;  // larger problems are read, and not written again

[[noreturn]] void stop(const char* what) {
  std::fprintf(stderr, "attest: %s\n", what);
  std::abort();
}

}  // namespace

void check_accepted(const Case& c) {
  const Problem& p = c.problem;
  if (const auto fault = validate(p)) stop(("a reader accepted a problem that is not valid: " + *fault).c_str());
  record_class(0, static_cast<int>(p.type));
  record_class(1, (p.mask ? 1 : 0) | (p.bias ? 2 : 0) | (p.key_lengths ? 4 : 0) | (p.sink ? 8 : 0) | (p.causal ? 16 : 0) | (p.softcap > 0 ? 32 : 0));
  record_class(2, (p.window.left ? 1 : 0) | (p.window.right ? 2 : 0) | (c.expected ? 4 : 0) | (p.shape.rows() == 0 ? 8 : 0) | (p.shape.nk == 0 ? 16 : 0));
  const size_t bytes = p.q.storage.size() + p.k.storage.size() + p.v.storage.size() + (p.bias ? p.bias->storage.size() : 0) +
                       (p.mask ? p.mask->storage.size() : 0);
  if (bytes > kWrittenBytes) return;
  try {
    if (!same(parse_json_case(to_json(c), "written.json").problem, p)) stop("a case is not the same after JSON");
    if (!same(parse_safetensors_case(to_safetensors(c), "written.safetensors").problem, p)) stop("a case is not the same after safetensors");
  } catch (const CaseError& e) {
    stop(e.what());
  }
}

void check_refusal(const CaseError& e) {
  const size_t length = std::strlen(e.what());
  if (length == 0 || length > 400) stop("a refusal is empty or long");
  for (size_t n = 0; n < length; ++n)
    if (static_cast<unsigned char>(e.what()[n]) < 0x20) stop("a refusal is not one line");
}

}  // namespace attest::fuzz
