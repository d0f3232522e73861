// plugin.h: finding a kernel's table: built in, or exported by a shared object, which stays loaded for the life of the
// process.
#pragma once

#include <string>
#include <variant>

#include "kernel/abi/attest_kernel.h"

namespace attest {

// Why a kernel could not be loaded; one line. `crashed`: it took its worker with it, or did not end in time.
struct LoadError {
  enum class Kind { not_found, bad_plugin, no_device, crashed } kind;
  std::string message;
};

// A kernel's table; `further`: the names of the plug-in's other kernels, with commas, where no name chose this one.
struct FoundTable {
  const attest_kernel* table = nullptr;
  std::string further = "";
};

// "host", "cuda", the path of a plug-in, or path:name where it holds several; its first where none is named. Runs code of
// the plug-in.
std::variant<FoundTable, LoadError> find_table(const std::string& name);

// Whether `name` is that of a built-in kernel, in this build or another.
bool is_built_in(const std::string& name);

// Empty, or what is wrong with a plug-in's table.
std::string table_fault(const attest_kernel& table);

}  // namespace attest
