#include "kernel/runner/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "kernel/host/host.h"
#include "kernel/runner/one_line.h"
#if ATTEST_HAVE_CUDA
#include "kernel/cuda/cuda.h"
#endif

namespace attest {

namespace {

constexpr const char* kBuiltIn[] = {"host", "cuda", "cuda_hopper"};

std::variant<FoundTable, LoadError> load_plugin(const std::string& spec) {
  // path or path:name.
  std::string path = spec, wanted;
  if (const auto colon = spec.rfind(':'); colon != std::string::npos && !std::filesystem::exists(spec)) {
    path = spec.substr(0, colon);
    wanted = spec.substr(colon + 1);
  }
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
#if ATTEST_HAVE_CUDA
    const std::string known = "host, cuda, cuda_hopper";
#else
    const std::string known = "host";
#endif
    return LoadError{LoadError::Kind::not_found, "unknown kernel '" + spec + "': no such file, and the built-in kernels are " + known};
  }
  if (!std::filesystem::is_regular_file(path, error)) return LoadError{LoadError::Kind::bad_plugin, "plug-in '" + path + "' is not a file"};
  void* handle = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    std::string text = why != nullptr ? why : "dlopen failed";
    std::replace(text.begin(), text.end(), '\n', ' ');
    return LoadError{LoadError::Kind::bad_plugin, "plug-in '" + path + "' does not load: " + text};
  }
  const auto get = reinterpret_cast<attest_kernel_get_fn>(dlsym(handle, ATTEST_KERNEL_SYMBOL));
  if (get == nullptr) return LoadError{LoadError::Kind::bad_plugin, "plug-in '" + path + "' does not export " ATTEST_KERNEL_SYMBOL};
  std::string names;
  FoundTable first;
  for (uint32_t index = 0;; ++index) {
    const attest_kernel* table = get(index);
    if (table == nullptr) break;
    if (const std::string fault = table_fault(*table); !fault.empty())
      return LoadError{LoadError::Kind::bad_plugin, "plug-in '" + path + "', kernel " + std::to_string(index) + ": " + fault};
    if (wanted == table->name) return FoundTable{table};
    if (wanted.empty() && first.table == nullptr) first.table = table;
    else if (wanted.empty()) first.further += (first.further.empty() ? "" : ", ") + std::string(table->name);
    names += (names.empty() ? "" : ", ") + std::string(table->name);
  }
  if (names.empty()) return LoadError{LoadError::Kind::bad_plugin, "plug-in '" + path + "' holds no kernel"};
  if (wanted.empty()) return first;
  return LoadError{LoadError::Kind::not_found, "plug-in '" + path + "' holds no kernel '" + wanted + "', it has " + names};
}

}  // namespace

bool is_built_in(const std::string& name) { return std::find(std::begin(kBuiltIn), std::end(kBuiltIn), name) != std::end(kBuiltIn); }

std::string table_fault(const attest_kernel& t) {
  if (t.abi_version != ATTEST_ABI_VERSION)
    return "has ABI version " + std::to_string(t.abi_version) + ", this attest speaks version " + std::to_string(ATTEST_ABI_VERSION);
  if (t.struct_size < sizeof(attest_kernel)) return "has a table of " + std::to_string(t.struct_size) + " bytes, expected " + std::to_string(sizeof(attest_kernel));
  if (t.name == nullptr || t.version == nullptr) return "has no name or version";
  constexpr size_t kLongest = 127;
  for (const char* text : {t.name, t.version})
    if (*text == 0 || one_line(text, kLongest) != text) return "has a name or version that is no line of UTF-8 of 1 to " + std::to_string(kLongest) + " bytes";
  if (t.supports == nullptr) return "lacks supports, which says of every call whether the kernel takes it";
  if (t.forward == nullptr) return "lacks forward";
  if (t.device != kDLCPU && t.device != kDLCUDA) return "names device type " + std::to_string(t.device) + ", expected CPU (1) or CUDA (2)";
  if (t.type_count == 0 || t.types == nullptr) return "lists no types";
  const std::tuple<const char*, uint32_t, const void*> lists[] = {{"head_widths", t.head_width_count, t.head_widths}, {"tiles", t.tile_count, t.tiles},
                                                                  {"splits", t.split_count, t.splits}, {"orders", t.order_count, t.orders},
                                                                  {"p_types", t.p_type_count, t.p_types}};
  for (const auto& [list, count, entries] : lists)
    if (count > 0 && entries == nullptr) return std::string("counts ") + std::to_string(count) + " " + list + " but lists none";
  return "";
}

std::variant<FoundTable, LoadError> find_table(const std::string& name) {
  if (name == "host") return FoundTable{host_kernel()};
  if (is_built_in(name)) {
#if ATTEST_HAVE_CUDA
    return FoundTable{name == "cuda" ? cuda_kernel() : cuda_hopper_kernel()};
#else
    return LoadError{LoadError::Kind::no_device, "kernel '" + name + "' is not in this build: it was configured without CUDA"};
#endif
  }
  return load_plugin(name);
}

}  // namespace attest
