// crash.h: what is said when a kernel takes the process down with it.
//
// A kernel runs in this process, so its segfault is attest's. report_crashes() turns the fatal signals into one line
// that names what was running, and exit code 3. Under a sanitizer its own, longer report stays.
// Example: running("kernel 'mine.so', property tile_size; again: attest verify --kernel mine.so --seed 1");
#pragma once

#include <string>

namespace attest::cli {

void report_crashes();
// What the line names from now on. Not for use inside a signal handler.
void running(const std::string& what);

}  // namespace attest::cli
