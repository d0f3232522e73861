// A whole problem through the host kernel and the judge, bound and noise budget included.
#include "fuzz/judge_problem.h"
#include "fuzz/problem_target.h"

namespace attest::fuzz {

const ProblemTarget problem_target{.kernel_variable = nullptr, .adapt = nullptr, .judge = judge_problem};

}  // namespace attest::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { return attest::fuzz::run_input(data, size); }
