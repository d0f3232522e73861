// serve.h: a worker process: loads one kernel and makes the calls that attest asks for, until attest is gone.
//
// Started by attest alone, as `attest --worker ENDS KERNEL`.
#pragma once

#include <functional>
#include <string>
#include <variant>

#include "kernel/runner/plugin.h"

namespace attest {

inline constexpr const char* kWorkerFlag = "--worker";

// `ends` as wire.h has them, `load` finds the table. Returns the exit code of the process.
int serve(const std::string& ends, const std::function<std::variant<FoundTable, LoadError>()>& load);

}  // namespace attest
