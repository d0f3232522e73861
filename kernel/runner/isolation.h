// isolation.h: how a kernel is kept apart from this process, and what that cost so far.
#pragma once

#include <cstdint>
#include <string>

#include "reference/observation.h"

namespace attest {

// How a kernel is kept apart.
struct Isolation {
  std::string program = "";  // the attest program, which is also the worker's; "": `attest` in the running program's folder
  double seconds = 60;       // the most time that any one call may take
  double load_seconds = 60;  // and loading, which imports what a Python kernel needs, where `seconds` is not more
  uint64_t memory = uint64_t{8} << 30;  // bytes of main memory that the worker may hold
  std::string python = "python3";       // serves kernels that are Python functions; sought in PATH
};

// Whether `name` is file.py:function, which always runs in a worker.
bool is_python(const std::string& name);

// How many workers this process has lost so far in the calling thread, and what was said of the last one.
struct Losses {
  int64_t count = 0;
  RunStatus status = RunStatus::crashed;
  std::string what;
};
const Losses& losses_of_this_thread();

}  // namespace attest
