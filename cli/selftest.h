// selftest.h: attest's check of itself, before it judges anybody.
//
// In well under a second: the processor rounds to nearest and keeps subnormals; the host kernel passes a few cases;
// broken host kernels fail them; the double path and cpp_dec_float give the same verdicts.
#pragma once

#include <string>
#include <vector>

namespace attest::cli {

// What was found wrong, one line each; empty if all is well. `done` takes a line for each check that passed.
std::vector<std::string> selftest(std::vector<std::string>* done = nullptr);

// Throws Stop with exit code 5 if selftest() finds anything.
void require_selftest();

}  // namespace attest::cli
