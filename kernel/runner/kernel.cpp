#include "kernel/runner/kernel.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <tuple>

#include "kernel/host/host.h"
#include "kernel/runner/memory.h"
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ATTEST_ADDRESS_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ATTEST_ADDRESS_SANITIZER 1
#endif
#if ATTEST_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif
#if ATTEST_HAVE_CUDA
#include "kernel/cuda/cuda.h"
#endif

namespace attest {

namespace {

constexpr size_t kAlign = 256;      // of every tensor's base
constexpr size_t kGuard = 256;      // bytes of guard band on either side
constexpr uint8_t kFirstPoison = 0xFF;   // NaN in every format
constexpr uint8_t kSecondPoison = 0x5B;
constexpr uint8_t kGuardByte = 0xFF;     // NaN: an over-read shows

int32_t abi_type(DType t) { return t == DType::f32 ? ATTEST_F32 : t == DType::f16 ? ATTEST_F16 : ATTEST_BF16; }

DLDataType dl_type(DType t) {
  return {static_cast<uint8_t>(t == DType::bf16 ? kDLBfloat : kDLFloat), static_cast<uint8_t>(t == DType::f32 ? 32 : 16), 1};
}

// A DLTensor with its own shape and strides.
struct OwnedTensor {
  DLTensor t{};
  int64_t shape[4] = {}, strides[4] = {};

  DLTensor* make(uint8_t* base, const Layout& layout, DLDataType type, int device, int ndim = 4) {
    for (int k = 0; k < ndim; ++k) {
      shape[k] = layout.extent[static_cast<size_t>(k)];
      strides[k] = layout.stride[static_cast<size_t>(k)];
    }
    t.data = base;
    t.device = {static_cast<DLDeviceType>(device), 0};
    t.ndim = ndim;
    t.dtype = type;
    t.shape = shape;
    t.strides = strides;
    t.byte_offset = static_cast<uint64_t>(layout.offset) * (type.bits / 8);
    return &t;
  }
};

// The tensors of one call, laid out one after the other between guard bands.
struct Plan {
  struct Region {
    size_t begin = 0, bytes = 0;
  };
  size_t size = kGuard;
  std::array<Region, 12> regions;  // those added, in ascending order
  size_t count = 0;
  Region add(size_t bytes) {
    Region r{(size + kAlign - 1) / kAlign * kAlign, bytes};
    size = r.begin + bytes + kGuard;
    regions[count++] = r;
    return r;
  }
};

// Under AddressSanitizer a kernel on the CPU that was compiled with it may not even read the guard bands. They are open
// again when this ends.
class ClosedGuards {
 public:
  ClosedGuards([[maybe_unused]] const Plan& plan, [[maybe_unused]] uint8_t* base) {
#if ATTEST_ADDRESS_SANITIZER
    base_ = base;
    size_ = plan.size;
    size_t open = 0;  // end of the last region
    for (size_t n = 0; n < plan.count; ++n) {
      ASAN_POISON_MEMORY_REGION(base + open, plan.regions[n].begin - open);
      open = plan.regions[n].begin + plan.regions[n].bytes;
    }
    ASAN_POISON_MEMORY_REGION(base + open, plan.size - open);
#endif
  }
  ClosedGuards(const ClosedGuards&) = delete;
  ClosedGuards& operator=(const ClosedGuards&) = delete;
#if ATTEST_ADDRESS_SANITIZER
  ~ClosedGuards() { ASAN_UNPOISON_MEMORY_REGION(base_, size_); }

 private:
  uint8_t* base_ = nullptr;
  size_t size_ = 0;
#endif
};

struct Regions {
  Plan::Region q, k, v, o, lse, lengths, mask, bias, sink, workspace, records, count;
};

struct Arguments {
  OwnedTensor q, k, v, o, lse, lengths, mask, bias, sink;
  attest_trace trace{};
  attest_args args{};
};

// Fills `a` for a problem whose regions start at `base`. Pointers are good for `supports` with any base.
void fill_arguments(const Problem& p, const Regions& r, uint8_t* base, int device, bool want_lse, Arguments& a) {
  const Shape& s = p.shape;
  attest_args& args = a.args;
  args.struct_size = sizeof(attest_args);
  args.q = a.q.make(base + r.q.begin, p.q.layout, dl_type(p.type), device);
  args.k = a.k.make(base + r.k.begin, p.k.layout, dl_type(p.type), device);
  args.v = a.v.make(base + r.v.begin, p.v.layout, dl_type(p.type), device);
  args.o = a.o.make(base + r.o.begin, p.o, dl_type(p.type), device);
  if (want_lse) args.lse = a.lse.make(base + r.lse.begin, p.lse, dl_type(DType::f32), device, 3);
  const auto vector = [](int64_t n) {
    Layout l;
    l.extent = {n, 1, 1, 1};
    l.stride = {1, 1, 1, 1};
    return l;
  };
  if (p.key_lengths) args.key_lengths = a.lengths.make(base + r.lengths.begin, vector(s.b), {kDLInt, 32, 1}, device, 1);
  if (p.mask) args.mask = a.mask.make(base + r.mask.begin, p.mask->layout, {kDLUInt, 8, 1}, device);
  if (p.bias) args.bias = a.bias.make(base + r.bias.begin, p.bias->layout, dl_type(p.bias->type), device);
  if (p.sink) args.sink = a.sink.make(base + r.sink.begin, vector(s.hq), dl_type(DType::f32), device, 1);
  args.scale = p.scale;
  args.softcap = p.softcap;
  args.causal = p.causal ? 1 : 0;
  args.window_left = p.window.left.value_or(-1);
  args.window_right = p.window.right.value_or(-1);
  args.tile_keys = p.choice.tile_keys;
  args.tile_order = p.choice.order == TileOrder::any ? ATTEST_ORDER_ANY : p.choice.order == TileOrder::ascending ? ATTEST_ORDER_ASCENDING : ATTEST_ORDER_DESCENDING;
  args.split_count = p.choice.splits;
  args.p_type = p.choice.p_type ? abi_type(*p.choice.p_type) : ATTEST_NO_TYPE;
}

bool packed(const Layout& l) {
  int64_t expected = 1;
  for (size_t k = 4; k-- > 0; expected *= l.extent[k])
    if (l.extent[k] > 1 && l.stride[k] != expected) return false;
  return true;
}

// Every row starts at a multiple of 16 bytes.
bool aligned(const Layout& l, int64_t element_bytes) {
  if (l.offset * element_bytes % 16 != 0) return false;
  for (size_t k = 0; k < 3; ++k)
    if (l.extent[k] > 1 && l.stride[k] * element_bytes % 16 != 0) return false;
  return true;
}

// What the capability list already rules out.
std::string outside_features(const Problem& p, const attest_kernel& t) {
  const auto needs = [&](bool used, uint32_t feature, const char* what) -> std::string {
    return used && (t.features & feature) == 0 ? std::string("the kernel does not offer ") + what : "";
  };
  for (const auto& why :
       {needs(p.causal, ATTEST_CAUSAL, "a causal mask"), needs(p.window.left || p.window.right, ATTEST_WINDOW, "a window"),
        needs(p.key_lengths.has_value(), ATTEST_KEY_LENGTHS, "key lengths"), needs(p.mask.has_value(), ATTEST_MASK, "a boolean mask"),
        needs(p.bias && p.bias->type == DType::f32, ATTEST_BIAS_F32 | (p.type == DType::f32 ? ATTEST_BIAS_INPUT_TYPE : 0), "bias in f32"),
        needs(p.bias && p.bias->type != DType::f32, ATTEST_BIAS_INPUT_TYPE, "bias in the input type"),
        needs(p.softcap > 0, ATTEST_SOFTCAP, "softcap"), needs(p.sink.has_value(), ATTEST_SINK, "a sink"),
        needs(p.shape.hk != p.shape.hq, ATTEST_GROUPED_HEADS, "grouped heads"),
        needs(!packed(p.q.layout) || !packed(p.k.layout) || !packed(p.v.layout) || !packed(p.o) || !packed(p.lse), ATTEST_STRIDES,
              "strides other than packed"),
        needs(!aligned(p.q.layout, size_of(p.type)) || !aligned(p.k.layout, size_of(p.type)) ||
                  !aligned(p.v.layout, size_of(p.type)) || !aligned(p.o, size_of(p.type)),
              ATTEST_UNALIGNED, "rows that are not aligned to 16 bytes")})
    if (!why.empty()) return why;
  if (std::find(t.types, t.types + t.type_count, abi_type(p.type)) == t.types + t.type_count)
    return "the kernel does not take " + std::string(name_of(p.type));
  if (p.choice.tile_keys != 0 && t.tile_count == 0) return "the kernel offers no choice of tile size";
  if (p.choice.splits != 0 && t.split_count == 0) return "the kernel offers no choice of splits";
  if (p.choice.order != TileOrder::any && t.order_count == 0) return "the kernel offers no choice of tile order";
  if (p.choice.p_type && std::find(t.p_types, t.p_types + t.p_type_count, abi_type(*p.choice.p_type)) == t.p_types + t.p_type_count)
    return "the kernel does not offer P in " + std::string(name_of(*p.choice.p_type));
  return "";
}

// f(index of the first element) for every row of extent[3] elements, which lie side by side.
template <class F>
void for_each_row(const Layout& l, F f) {
  for (int64_t a = 0; a < l.extent[0]; ++a)
    for (int64_t b = 0; b < l.extent[1]; ++b)
      for (int64_t c = 0; c < l.extent[2]; ++c) f(l.at(a, b, c, 0));
}

// Appends `count` elements to `values`.
void read_elements(const uint8_t* from, DType type, int64_t count, std::vector<double>& values) {
  if (type == DType::f32) {
    for (int64_t n = 0; n < count; ++n) {
      float x;
      std::memcpy(&x, from + 4 * n, 4);
      values.push_back(static_cast<double>(x));
    }
    return;
  }
  for (int64_t n = 0; n < count; ++n) {
    uint16_t u;
    std::memcpy(&u, from + 2 * n, 2);
    values.push_back(type == DType::f16 ? static_cast<double>(f16_to_float(u)) : static_cast<double>(bf16_to_float(u)));
  }
}

}  // namespace

struct Kernel::Impl {
  const attest_kernel* table = nullptr;
  std::string name;
  std::string device = "cpu";
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Arena>> idle;  // arenas not in use

  std::unique_ptr<Arena> take_arena() const {
    {
      std::lock_guard lock(mutex);
      if (!idle.empty()) {
        auto arena = std::move(idle.back());
        idle.pop_back();
        return arena;
      }
    }
    if (table->device == kDLCPU) return cpu_arena();
    std::string why;
    auto arena = cuda_arena(why);
    if (arena == nullptr) throw DeviceError(why);
    return arena;
  }
  void give_back(std::unique_ptr<Arena> arena) const {
    std::lock_guard lock(mutex);
    idle.push_back(std::move(arena));
  }
  mutable std::mutex serial;  // held during forward of a kernel that is not reentrant
};

const attest_kernel& Kernel::table() const { return *impl_->table; }
std::string Kernel::name() const { return impl_->name; }
std::string Kernel::device() const { return impl_->device; }
std::vector<std::string> Kernel::built_in() {
#if ATTEST_HAVE_CUDA
  return {"host", "cuda", "cuda_hopper"};
#else
  return {"host"};
#endif
}

Kernel Kernel::from_table(const attest_kernel* table) {
  Kernel k;
  k.impl_ = std::make_shared<Impl>();
  k.impl_->table = table;
  k.impl_->name = table->name;
  return k;
}

namespace {

// Empty, or what is wrong with a plug-in's table.
std::string table_fault(const attest_kernel& t) {
  if (t.abi_version != ATTEST_ABI_VERSION)
    return "has ABI version " + std::to_string(t.abi_version) + ", this attest speaks version " + std::to_string(ATTEST_ABI_VERSION);
  if (t.struct_size < sizeof(attest_kernel)) return "has a table of " + std::to_string(t.struct_size) + " bytes, expected " + std::to_string(sizeof(attest_kernel));
  if (t.name == nullptr || t.version == nullptr) return "has no name or version";
  if (t.supports == nullptr || t.forward == nullptr) return "lacks supports or forward";
  if (t.device != kDLCPU && t.device != kDLCUDA) return "names device type " + std::to_string(t.device) + ", expected CPU (1) or CUDA (2)";
  if (t.type_count == 0 || t.types == nullptr) return "lists no types";
  const std::tuple<const char*, uint32_t, const void*> lists[] = {{"head_widths", t.head_width_count, t.head_widths}, {"tiles", t.tile_count, t.tiles},
                                                                  {"splits", t.split_count, t.splits}, {"orders", t.order_count, t.orders},
                                                                  {"p_types", t.p_type_count, t.p_types}};
  for (const auto& [list, count, entries] : lists)
    if (count > 0 && entries == nullptr) return std::string("counts ") + std::to_string(count) + " " + list + " but lists none";
  return "";
}

std::variant<const attest_kernel*, LoadError> load_plugin(const std::string& spec) {
  // path or path:name.
  std::string path = spec, wanted;
  if (const auto colon = spec.rfind(':'); colon != std::string::npos && !std::filesystem::exists(spec)) {
    path = spec.substr(0, colon);
    wanted = spec.substr(colon + 1);
  }
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    std::string known;
    for (const std::string& name : Kernel::built_in()) known += (known.empty() ? "" : ", ") + name;
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
  for (uint32_t index = 0;; ++index) {
    const attest_kernel* table = get(index);
    if (table == nullptr) break;
    if (const std::string fault = table_fault(*table); !fault.empty())
      return LoadError{LoadError::Kind::bad_plugin, "plug-in '" + path + "', kernel " + std::to_string(index) + ": " + fault};
    if (wanted.empty() || wanted == table->name) return table;
    names += (names.empty() ? "" : ", ") + std::string(table->name);
  }
  if (names.empty()) return LoadError{LoadError::Kind::bad_plugin, "plug-in '" + path + "' holds no kernel"};
  return LoadError{LoadError::Kind::not_found, "plug-in '" + path + "' holds no kernel '" + wanted + "', it has " + names};
}

}  // namespace

std::variant<Kernel, LoadError> Kernel::load(const std::string& name) {
  const attest_kernel* table = nullptr;
  if (name == "host") {
    table = host_kernel();
  } else if (name == "cuda" || name == "cuda_hopper") {
#if ATTEST_HAVE_CUDA
    table = name == "cuda" ? cuda_kernel() : cuda_hopper_kernel();
#else
    return LoadError{LoadError::Kind::no_device, "kernel '" + name + "' is not in this build: it was configured without CUDA"};
#endif
  } else {
    auto loaded = load_plugin(name);
    if (auto* error = std::get_if<LoadError>(&loaded)) return *error;
    table = std::get<const attest_kernel*>(loaded);
  }
  Kernel k = from_table(table);
  if (table->device == kDLCUDA) {
    std::string why;
    auto arena = cuda_arena(why);
    if (arena == nullptr) return LoadError{LoadError::Kind::no_device, "kernel '" + name + "' needs a CUDA device: " + why};
    k.impl_->device = arena->device();
    k.impl_->give_back(std::move(arena));
  }
  return k;
}

std::string Kernel::refuses(const Problem& problem) const {
  if (std::string why = outside_features(problem, table()); !why.empty()) return why;
  Arguments a;
  fill_arguments(problem, {}, nullptr, table().device, has(ATTEST_LSE), a);
  char reason[256] = "";
  if (table().supports(&a.args, reason, sizeof reason) != 0) return "";
  reason[sizeof reason - 1] = 0;
  return reason[0] != 0 ? reason : "the kernel gives no reason";
}

Observation Kernel::run(const Problem& p, const RunOptions& options) const {
  Observation seen;
  run(p, options, seen);
  return seen;
}

void Kernel::run(const Problem& p, const RunOptions& options, Observation& seen) const {
  const attest_kernel& t = table();
  seen.status = RunStatus::ok;
  seen.traced = false;
  seen.seconds = 0;
  for (std::string* text : {&seen.message, &seen.overrun, &seen.unwritten, &seen.input_change, &seen.path}) text->clear();
  seen.o.clear();
  seen.lse.clear();
  seen.trace.clear();
  if (std::string why = refuses(p); !why.empty()) {
    seen.status = RunStatus::unsupported;
    seen.message = why;
    return;
  }
  const Shape& s = p.shape;
  const bool want_lse = options.want_lse && has(ATTEST_LSE);
  const bool want_trace = options.trace && traceable();

  // One image of everything, guard bands between; what may change is what outputs, workspace and trace cover.
  Plan plan;
  Regions r;
  const auto bytes_of = [](const Layout& l, int64_t element) { return static_cast<size_t>(l.span() * element); };
  r.q = plan.add(p.q.storage.size());
  r.k = plan.add(p.k.storage.size());
  r.v = plan.add(p.v.storage.size());
  r.o = plan.add(bytes_of(p.o, size_of(p.type)));
  if (want_lse) r.lse = plan.add(bytes_of(p.lse, 4));
  if (p.key_lengths) r.lengths = plan.add(4 * p.key_lengths->size());
  if (p.mask) r.mask = plan.add(p.mask->storage.size());
  if (p.bias) r.bias = plan.add(p.bias->storage.size());
  if (p.sink) r.sink = plan.add(4 * p.sink->size());
  Arguments a;
  fill_arguments(p, r, nullptr, t.device, want_lse, a);
  const uint64_t workspace = t.workspace_bytes != nullptr ? t.workspace_bytes(&a.args) : 0;
  const uint64_t records = want_trace ? t.trace_capacity(&a.args) : 0;
  r.workspace = plan.add(workspace);
  if (want_trace) {
    r.records = plan.add(records * sizeof(attest_trace_record));
    r.count = plan.add(8);
  }

  try {
    std::unique_ptr<Arena> arena = impl_->take_arena();
    uint8_t* base = arena->reserve(plan.size);
    fill_arguments(p, r, base, t.device, want_lse, a);
    a.args.workspace = workspace > 0 ? base + r.workspace.begin : nullptr;
    a.args.workspace_bytes = workspace;
    if (want_trace) {
      a.trace = {reinterpret_cast<attest_trace_record*>(base + r.records.begin), records, reinterpret_cast<uint64_t*>(base + r.count.begin)};
      a.args.trace = &a.trace;
    }

    thread_local std::vector<uint8_t> before, after;  // images of the arena; kept, since fresh pages cost more than a small run
    before.assign(plan.size, kGuardByte);
    const auto put = [&](const Plan::Region& region, const void* data) {
      if (region.bytes > 0) std::memcpy(before.data() + region.begin, data, region.bytes);
    };
    put(r.q, p.q.storage.data());
    put(r.k, p.k.storage.data());
    put(r.v, p.v.storage.data());
    if (p.key_lengths) put(r.lengths, p.key_lengths->data());
    if (p.mask) put(r.mask, p.mask->storage.data());
    if (p.bias) put(r.bias, p.bias->storage.data());
    if (p.sink) put(r.sink, p.sink->data());
    if (want_trace) std::memset(before.data() + r.count.begin, 0, 8);

    // Runs once with outputs filled with `poison`; false where the kernel did not finish.
    const auto run_once = [&](uint8_t poison) {
      std::memset(before.data() + r.o.begin, poison, r.o.bytes);
      if (want_lse) std::memset(before.data() + r.lse.begin, poison, r.lse.bytes);
      if (workspace > 0) std::memset(before.data() + r.workspace.begin, poison, r.workspace.bytes);
      arena->upload(before.data(), before.size());
      char message[256] = "";
      const auto start = std::chrono::steady_clock::now();
      attest_status status;
      {
        std::unique_lock lock(impl_->serial, std::defer_lock);
        if (t.reentrant == 0) lock.lock();
        std::optional<ClosedGuards> closed;
        if (t.device == kDLCPU) closed.emplace(plan, base);
        status = t.forward(&a.args, arena->stream(), message, sizeof message);
        arena->synchronise();
      }
      seen.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      message[sizeof message - 1] = 0;
      if (status != ATTEST_OK) {
        seen.status = status == ATTEST_UNSUPPORTED ? RunStatus::unsupported : RunStatus::failed;
        seen.message = message[0] != 0 ? message : "the kernel gives no reason";
        return false;
      }
      after.resize(before.size());
      arena->download(after.data(), after.size());
      return true;
    };
    // Elements that still hold the poison: "o: element 5 of its buffer".
    const auto still_poison = [&](uint8_t poison) {
      std::string where;
      const auto look = [&](const char* name, const Plan::Region& region, const Layout& l, int64_t bytes) {
        for_each_row(l, [&](int64_t index) {
          const uint8_t* row = after.data() + region.begin + static_cast<size_t>(index * bytes);
          for (int64_t n = 0; n < l.extent[3] && where.empty(); ++n)
            if (row[n * bytes] == poison && std::all_of(row + n * bytes, row + (n + 1) * bytes, [&](uint8_t byte) { return byte == poison; }))
              where = std::string(name) + ": element " + std::to_string(index + n) + " of its buffer was not written";
        });
      };
      look("o", r.o, p.o, size_of(p.type));
      if (want_lse) look("lse", r.lse, p.lse, 4);
      return where;
    };

    const uint8_t poison = options.poison != 0 ? options.poison : kFirstPoison;
    bool finished = run_once(poison);
    if (finished && options.check_memory && !still_poison(poison).empty()) {
      // The poison may be the right result by chance: only what keeps two kinds of it was not written.
      finished = run_once(poison == kSecondPoison ? kFirstPoison : kSecondPoison);
      if (finished) seen.unwritten = still_poison(poison == kSecondPoison ? kFirstPoison : kSecondPoison);
    }
    if (finished) {
      seen.o.reserve(static_cast<size_t>(s.rows() * s.dv));
      const auto read = [&](const Plan::Region& region, const Layout& l, DType type, std::vector<double>& values) {
        for_each_row(l, [&](int64_t index) {
          read_elements(after.data() + region.begin + static_cast<size_t>(index * size_of(type)), type, l.extent[3], values);
        });
      };
      read(r.o, p.o, p.type, seen.o);
      if (want_lse) {
        seen.lse.reserve(static_cast<size_t>(s.rows()));
        read(r.lse, p.lse, DType::f32, seen.lse);
      }
      if (want_trace) {
        uint64_t count = 0;
        std::memcpy(&count, after.data() + r.count.begin, 8);
        if (count > records) seen.overrun = "trace: " + std::to_string(count) + " records, capacity " + std::to_string(records);
        seen.traced = true;
        for (uint64_t n = 0; n < std::min(count, records); ++n) {
          attest_trace_record record;
          std::memcpy(&record, after.data() + r.records.begin + n * sizeof record, sizeof record);
          seen.trace.push_back({record.b, record.h, record.row, record.split, record.sequence, record.key_begin, record.key_end, record.m, record.l, record.scale});
        }
        std::sort(seen.trace.begin(), seen.trace.end(), [](const TraceRecord& x, const TraceRecord& y) {
          return std::tie(x.b, x.h, x.row, x.split, x.sequence) < std::tie(y.b, y.h, y.row, y.split, y.sequence);
        });
      }
      if (options.check_memory) {
        // Put back what may change; then nothing may differ.
        const auto restore = [&](size_t begin, size_t bytes) { std::memcpy(after.data() + begin, before.data() + begin, bytes); };
        const auto restore_rows = [&](const Plan::Region& region, const Layout& l, int64_t size) {
          for_each_row(l, [&](int64_t index) { restore(region.begin + static_cast<size_t>(index * size), static_cast<size_t>(l.extent[3] * size)); });
        };
        restore_rows(r.o, p.o, size_of(p.type));
        if (want_lse) restore_rows(r.lse, p.lse, 4);
        restore(r.workspace.begin, r.workspace.bytes);
        if (want_trace) {
          restore(r.records.begin, r.records.bytes);
          restore(r.count.begin, r.count.bytes);
        }
        if (std::memcmp(before.data(), after.data(), before.size()) != 0) {
          const auto at = std::mismatch(before.begin(), before.end(), after.begin());
          const auto byte = static_cast<size_t>(at.first - before.begin());
          const std::pair<const char*, Plan::Region> inputs[] = {{"q", r.q}, {"k", r.k}, {"v", r.v}, {"key_lengths", r.lengths}, {"mask", r.mask}, {"bias", r.bias}, {"sink", r.sink}};
          for (const auto& [name, region] : inputs)
            if (byte >= region.begin && byte < region.begin + region.bytes) seen.input_change = std::string(name) + ": byte " + std::to_string(byte - region.begin) + " of the input was changed";
          if (seen.input_change.empty()) {
            const std::pair<const char*, Plan::Region> all[] = {{"q", r.q}, {"k", r.k}, {"v", r.v}, {"o", r.o}, {"lse", r.lse}, {"key_lengths", r.lengths}, {"mask", r.mask}, {"bias", r.bias}, {"sink", r.sink}, {"workspace", r.workspace}, {"trace", r.records}, {"trace count", r.count}};
            std::string where = "before the first buffer";
            for (const auto& [name, region] : all)
              if (region.begin > 0 && region.begin <= byte)
                where = byte < region.begin + region.bytes ? std::string(name) + ": byte " + std::to_string(byte - region.begin) + ", between its elements,"
                                                           : std::string(name) + ": byte " + std::to_string(byte - region.begin - region.bytes) + " past the end";
            seen.overrun = where + " was written";
          }
        }
      }
    }
    impl_->give_back(std::move(arena));
  } catch (const DeviceError& e) {
    seen.status = RunStatus::crashed;
    seen.message = e.what();
  } catch (const std::bad_alloc&) {
    seen.status = RunStatus::failed;
    seen.message = "out of memory for a problem of " + std::to_string(plan.size) + " bytes";
  }
}

Merged Kernel::merge(const PartialStates& a, const PartialStates& b) const {
  Merged out;
  const attest_kernel& t = table();
  if (t.merge == nullptr) return {RunStatus::unsupported, "the kernel offers no merge", {}};
  const auto rows = static_cast<int64_t>(a.lse.size());
  Plan plan;
  struct State {
    Plan::Region o, lse;
    OwnedTensor o_tensor, lse_tensor;
    attest_state state{};
  } states[3];
  for (State& s : states) {
    s.o = plan.add(a.o.size() * 4);
    s.lse = plan.add(a.lse.size() * 4);
  }
  try {
    std::unique_ptr<Arena> arena = impl_->take_arena();
    uint8_t* base = arena->reserve(plan.size);
    const DLDataType f32 = dl_type(DType::f32);
    Layout matrix, vector;
    matrix.extent = {rows, a.width, 1, 1};
    matrix.stride = {a.width, 1, 1, 1};
    vector.extent = {rows, 1, 1, 1};
    vector.stride = {1, 1, 1, 1};
    for (State& s : states) {
      s.state.o = s.o_tensor.make(base + s.o.begin, matrix, f32, t.device, 2);
      s.state.lse = s.lse_tensor.make(base + s.lse.begin, vector, f32, t.device, 1);
    }
    std::vector<uint8_t> image(plan.size, kGuardByte);
    const auto put = [&](const Plan::Region& region, const std::vector<float>& values) {
      if (region.bytes > 0) std::memcpy(image.data() + region.begin, values.data(), region.bytes);
    };
    put(states[0].o, a.o);
    put(states[0].lse, a.lse);
    put(states[1].o, b.o);
    put(states[1].lse, b.lse);
    arena->upload(image.data(), image.size());
    char message[256] = "";
    attest_status status;
    {
      std::unique_lock lock(impl_->serial, std::defer_lock);
      if (t.reentrant == 0) lock.lock();
      status = t.merge(&states[0].state, &states[1].state, &states[2].state, arena->stream(), message, sizeof message);
      arena->synchronise();
    }
    message[sizeof message - 1] = 0;
    if (status != ATTEST_OK) {
      out.status = status == ATTEST_UNSUPPORTED ? RunStatus::unsupported : RunStatus::failed;
      out.message = message[0] != 0 ? message : "the kernel gives no reason";
    } else {
      arena->download(image.data(), image.size());
      out.state.width = a.width;
      out.state.o.resize(a.o.size());
      out.state.lse.resize(a.lse.size());
      if (states[2].o.bytes > 0) std::memcpy(out.state.o.data(), image.data() + states[2].o.begin, states[2].o.bytes);
      if (states[2].lse.bytes > 0) std::memcpy(out.state.lse.data(), image.data() + states[2].lse.begin, states[2].lse.bytes);
    }
    impl_->give_back(std::move(arena));
  } catch (const DeviceError& e) {
    out.status = RunStatus::crashed;
    out.message = e.what();
  }
  return out;
}

Conventions Kernel::conventions() const {
  const attest_conventions& c = table().conventions;
  return {c.causal_top_left != 0, c.empty_row_o_nan != 0, c.empty_row_lse_inf != 0, c.nonfinite_v_leaks != 0, c.batch_dependent != 0, c.sink_first != 0};
}

namespace {

std::optional<DType> dtype_of(int32_t abi) {
  switch (abi) {
    case ATTEST_F32: return DType::f32;
    case ATTEST_F16: return DType::f16;
    case ATTEST_BF16: return DType::bf16;
    default: return std::nullopt;
  }
}

}  // namespace

Numerics Kernel::numerics(const Problem& p, Contract contract) const {
  Numerics n = strict(p.type);
  if (contract == Contract::declared) {
    const attest_numerics& d = table().numerics;
    if (const auto type = dtype_of(d.p_type)) n.p_type = *type;
    if (d.p_rounding == 2) n.p_rounding = Rounding::toward_zero;
    if (d.l_from != 0) n.l_from = d.l_from == 1 ? DenominatorFrom::unrounded : DenominatorFrom::rounded;
    if (const auto type = dtype_of(d.acc_type)) {
      n.acc_type = *type;
      n.sum_unit = std::ldexp(1.0, 1 - significand_bits(*type));
    }
    if (d.acc_rounding == 2) n.acc_rounding = Rounding::toward_zero;
    if (d.split_state_type != 0) n.split_state_type = dtype_of(d.split_state_type);
    if (d.sum_depth > 0) n.sum_depth = d.sum_depth;
    if (d.tile > 0) n.tile = d.tile;
    if (d.exp_rel_error > 0) n.exp_rel_error = d.exp_rel_error;
    if (d.max_lag > 0) n.max_lag = d.max_lag;
    if (p.choice.p_type) n.p_type = *p.choice.p_type;
  } else if (p.choice.p_type && *p.choice.p_type != DType::f32) {
    n.p_type = *p.choice.p_type;  // asked for; P in f32 is finer than strict and gives no licence
  }
  if (p.choice.tile_keys > 0 && p.choice.tile_keys < n.tile) n.tile = p.choice.tile_keys;
  // Each split ends in a merge and may end in a tile that is not full.
  if (p.choice.splits > 1) n.extra_rescales = 2 * (p.choice.splits - 1);
  return n;
}

}  // namespace attest
