// environment.h: what a result was made with and on.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernel/runner/kernel.h"

namespace attest::cli {

std::string version();  // of attest

// Pairs of name and text, in the order in which they are printed: attest, compiler, system, cpu, device, driver.
std::vector<std::pair<std::string, std::string>> environment(const Kernel& kernel);

// "host 0.1.0 on cpu", without control characters.
std::string described(const Kernel& kernel);

}  // namespace attest::cli
