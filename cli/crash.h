// crash.h: what is said when a kernel takes the process down with it.
//
// A kernel runs in this process, so its segfault is attest's, and so is its exit. report_crashes() turns both into one
// line that names what was running, and exit code 3. Under a sanitizer its own, longer report of a signal stays.
// Example: running("kernel 'mine.so', property tile_size; again: attest verify --kernel mine.so --seed 1");
#pragma once

#include <string>

namespace attest::cli {

void report_crashes();
// From now on the process may end: an exit before this is a kernel's doing, and ends with one line and exit code 3, too.
void finished();
// What the line names from now on. Not for use inside a signal handler.
void running(const std::string& what);

}  // namespace attest::cli
