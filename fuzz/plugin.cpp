// A whole problem through a kernel that is loaded at run time: ATTEST_FUZZ_KERNEL names the plug-in, as --kernel of
// `attest` does; without it, attest_example.so beside the program. The kernel runs in this process.
#include "fuzz/judge_problem.h"
#include "fuzz/problem_target.h"

namespace attest::fuzz {

const ProblemTarget problem_target{.kernel_variable = "ATTEST_FUZZ_KERNEL", .adapt = nullptr, .judge = judge_problem};

}  // namespace attest::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { return attest::fuzz::run_input(data, size); }
