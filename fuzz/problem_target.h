// problem_target.h: what the fuzz targets on problems have in common: decoding, mutators, findings, and a few commands.
//
// A target's file defines `problem_target`, and LLVMFuzzerTestOneInput as a call of run_input. libFuzzer's mutator and
// crossover, and LLVMFuzzerInitialize, are defined once, here. Before libFuzzer starts, a target takes four commands:
//     fuzz_whole_problem --to-case INPUT CASE      an input as a case file, .json or .safetensors
//     fuzz_whole_problem --from-case CASE INPUT    and back
//     fuzz_whole_problem --keep-crash INPUT FOLDER shrinks an input on which the kernel crashes (finding.h)
//     fuzz_whole_problem --speed FOLDER SECONDS    executions a second on the inputs of a folder
#pragma once

#include <cstddef>
#include <cstdint>

#include "fuzz/finding.h"
#include "fuzz/input.h"
#include "kernel/runner/kernel.h"

namespace attest::fuzz {

struct ProblemTarget {
  const char* kernel_variable;      // environment variable that names the kernel; nullptr: the host kernel
  void (*adapt)(Problem& problem);  // makes any problem one of this target's; may be nullptr
  Judged (*judge)(const Kernel& kernel, const Problem& problem);  // runs the kernel, judges, counts feedback
};

extern const ProblemTarget problem_target;

// 0, or -1 where the input is not worth keeping: the kernel refuses it.
int run_input(const uint8_t* data, size_t size);

}  // namespace attest::fuzz
