#include "kernel/runner/kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <exception>
#include <mutex>
#include <tuple>

#include "kernel/runner/memory.h"
#include "kernel/runner/one_line.h"
#include "kernel/runner/place.h"
#include "kernel/runner/worker.h"

namespace attest {

namespace {

constexpr uint8_t kFirstPoison = 0xFF;  // NaN in every format
constexpr uint8_t kSecondPoison = 0x5B;
constexpr size_t kMostDeviceWorkers = 8;  // each holds a context on the device

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
  const auto rows_aligned = [&](const Layout& l) { return aligned(l, size_of(p.type)); };
  const struct {
    bool used;
    uint32_t feature;
    const char* what;
  } needs[] = {{p.causal, ATTEST_CAUSAL, "a causal mask"},
               {p.window.left || p.window.right, ATTEST_WINDOW, "a window"},
               {p.key_lengths.has_value(), ATTEST_KEY_LENGTHS, "key lengths"},
               {p.mask.has_value(), ATTEST_MASK, "a boolean mask"},
               {p.bias && p.bias->type == DType::f32, ATTEST_BIAS_F32 | (p.type == DType::f32 ? uint32_t{ATTEST_BIAS_INPUT_TYPE} : 0), "bias in f32"},
               {p.bias && p.bias->type != DType::f32, ATTEST_BIAS_INPUT_TYPE, "bias in the input type"},
               {p.softcap > 0, ATTEST_SOFTCAP, "softcap"},
               {p.sink.has_value(), ATTEST_SINK, "a sink"},
               {p.shape.hk != p.shape.hq, ATTEST_GROUPED_HEADS, "grouped heads"},
               {!packed(p.q.layout) || !packed(p.k.layout) || !packed(p.v.layout) || !packed(p.o) || !packed(p.lse), ATTEST_STRIDES,
                "strides other than packed"},
               {!rows_aligned(p.q.layout) || !rows_aligned(p.k.layout) || !rows_aligned(p.v.layout) || !rows_aligned(p.o), ATTEST_UNALIGNED,
                "rows that are not aligned to 16 bytes"}};
  for (const auto& need : needs)
    if (need.used && (t.features & need.feature) == 0) return std::string("the kernel does not offer ") + need.what;
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

// What lies in the image of a call, in the order of its plan.
struct Part {
  enum Kind { input, output, workspace, records, record_count };
  const char* name;
  Kind kind;
  Region region;                   // begins at 0 where there is none
  const void* given = nullptr;     // of an input
  const Layout* layout = nullptr;  // of an output
  int64_t element = 0;
};
using Parts = std::array<Part, 12>;

Parts parts_of(const PlannedCall& call, const Problem& p) {
  return {{{"q", Part::input, call.q.region, p.q.storage.data()},
           {"k", Part::input, call.k.region, p.k.storage.data()},
           {"v", Part::input, call.v.region, p.v.storage.data()},
           {"o", Part::output, call.o.region, nullptr, &p.o, size_of(p.type)},
           {"lse", Part::output, call.lse.region, nullptr, &p.lse, 4},
           {"key_lengths", Part::input, call.lengths.region, p.key_lengths ? p.key_lengths->data() : nullptr},
           {"mask", Part::input, call.mask.region, p.mask ? p.mask->storage.data() : nullptr},
           {"bias", Part::input, call.bias.region, p.bias ? p.bias->storage.data() : nullptr},
           {"sink", Part::input, call.sink.region, p.sink ? p.sink->data() : nullptr},
           {"workspace", Part::workspace, call.workspace},
           {"trace", Part::records, call.records},
           {"trace count", Part::record_count, call.record_count}}};
}

// f(begin, end of the guard band before it, the part), then f(begin, end of the last band, nullptr), until one is false.
template <class F>
void for_each_part(const Parts& parts, uint64_t size, F f) {
  uint64_t at = 0;
  for (const Part& part : parts) {
    if (part.region.begin == 0) continue;
    if (!f(at, part.region.begin, &part)) return;
    at = part.region.begin + part.region.bytes;
  }
  f(at, size, nullptr);
}

// The image before a call: inputs between guard bands, outputs of poison, no record counted.
void fill_image(const Parts& parts, uint64_t size, uint8_t poison, uint8_t* image) {
  for_each_part(parts, size, [&](uint64_t begin, uint64_t end, const Part* part) {
    std::memset(image + begin, kGuardByte, end - begin);
    if (part == nullptr || part->region.bytes == 0) return true;
    uint8_t* at = image + part->region.begin;
    if (part->kind == Part::input) std::memcpy(at, part->given, part->region.bytes);
    else std::memset(at, part->kind == Part::records ? kGuardByte : part->kind == Part::record_count ? 0 : poison, part->region.bytes);
    return true;
  });
}

// The first of `count` bytes that is not `byte`, or count.
uint64_t first_other(const uint8_t* from, uint64_t count, uint8_t byte) {
  if (count == 0 || (from[0] == byte && std::memcmp(from, from + 1, count - 1) == 0)) return count;
  return static_cast<uint64_t>(std::find_if(from, from + count, [&](uint8_t b) { return b != byte; }) - from);
}

// The first byte of the image that no kernel may change and that is not as it was filled; its size where there is none.
// Elements of strided outputs are lost.
uint64_t first_change(const Parts& parts, uint64_t size, uint8_t poison, uint8_t* image) {
  uint64_t found = size;
  for_each_part(parts, size, [&](uint64_t begin, uint64_t end, const Part* part) {
    if (const uint64_t n = first_other(image + begin, end - begin, kGuardByte); n < end - begin) {
      found = begin + n;
      return false;
    }
    if (part == nullptr || part->region.bytes == 0) return true;
    const auto [at, bytes] = part->region;
    uint64_t same = bytes;
    if (part->kind == Part::input) {
      const auto* given = static_cast<const uint8_t*>(part->given);
      if (std::memcmp(image + at, given, bytes) != 0) same = static_cast<uint64_t>(std::mismatch(given, given + bytes, image + at).first - given);
    } else if (part->kind == Part::output && (part->layout->offset != 0 || !packed(*part->layout))) {
      // Between its elements there is still poison.
      const Layout& l = *part->layout;
      for_each_row(l, [&](int64_t index) { std::memset(image + at + static_cast<size_t>(index * part->element), poison, static_cast<size_t>(l.extent[3] * part->element)); });
      same = first_other(image + at, bytes, poison);
    }
    if (same == bytes) return true;
    found = at + same;
    return false;
  });
  return found;
}

// The first of `count` elements that still holds the poison, or count.
template <class T>
int64_t first_poisoned(const uint8_t* from, int64_t count, uint8_t poison) {
  T pattern, x;
  std::memset(&pattern, poison, sizeof pattern);
  for (int64_t n = 0; n < count; ++n) {
    std::memcpy(&x, from + static_cast<int64_t>(sizeof x) * n, sizeof x);
    if (x == pattern) return n;
  }
  return count;
}

// Elements that still hold the poison: "o: element 5 of its buffer".
std::string still_poison(const Parts& parts, uint8_t poison, const uint8_t* image) {
  std::string where;
  for (const Part& part : parts) {
    if (part.kind != Part::output || part.region.begin == 0) continue;
    for_each_row(*part.layout, [&](int64_t index) {
      if (!where.empty()) return;
      const uint8_t* row = image + part.region.begin + static_cast<size_t>(index * part.element);
      const int64_t count = part.layout->extent[3];
      const int64_t n = part.element == 4 ? first_poisoned<uint32_t>(row, count, poison) : first_poisoned<uint16_t>(row, count, poison);
      if (n < count) where = std::string(part.name) + ": element " + std::to_string(index + n) + " of its buffer was not written";
    });
  }
  return where;
}

// Into `seen`, what the change of a byte is.
void tell_change(const Parts& parts, uint64_t byte, Observation& seen) {
  std::string where = "before the first buffer";
  for (const Part& part : parts) {
    const auto [begin, bytes] = part.region;
    if (begin == 0 || begin > byte) continue;
    if (byte >= begin + bytes) {
      where = std::string(part.name) + ": byte " + std::to_string(byte - begin - bytes) + " past the end";
    } else if (part.kind == Part::input) {
      seen.input_change = std::string(part.name) + ": byte " + std::to_string(byte - begin) + " of the input was changed";
      return;
    } else {
      where = std::string(part.name) + ": byte " + std::to_string(byte - begin) + ", between its elements,";
    }
  }
  seen.overrun = where + " was written";
}

// `count` elements, widened.
void read_elements(const uint8_t* from, DType type, int64_t count, double* to) {
  if (type == DType::f32) {
    for (int64_t n = 0; n < count; ++n) {
      float x;
      std::memcpy(&x, from + 4 * n, 4);
      to[n] = static_cast<double>(x);
    }
    return;
  }
  for (int64_t n = 0; n < count; ++n) {
    uint16_t u;
    std::memcpy(&u, from + 2 * n, 2);
    to[n] = type == DType::f16 ? static_cast<double>(f16_to_float(u)) : static_cast<double>(bf16_to_float(u));
  }
}

// O, and LSE where it was wanted, from the image that came back.
void read_outputs(const PlannedCall& call, const Problem& p, const uint8_t* image, Observation& seen) {
  const auto read = [&](const Region& region, const Layout& l, DType type, std::vector<double>& values) {
    values.resize(static_cast<size_t>(l.extent[0] * l.extent[1] * l.extent[2] * l.extent[3]));
    double* to = values.data();
    for_each_row(l, [&](int64_t index) {
      read_elements(image + region.begin + static_cast<size_t>(index * size_of(type)), type, l.extent[3], to);
      to += l.extent[3];
    });
  };
  read(call.o.region, p.o, p.type, seen.o);
  if (call.lse.present != 0) read(call.lse.region, p.lse, DType::f32, seen.lse);
}

// The records that the kernel wrote, sorted.
void read_trace(const PlannedCall& call, const uint8_t* image, Observation& seen) {
  uint64_t count = 0;
  std::memcpy(&count, image + call.record_count.begin, 8);
  if (count > call.record_capacity) seen.overrun = "trace: " + std::to_string(count) + " records, capacity " + std::to_string(call.record_capacity);
  seen.traced = true;
  seen.trace.resize(static_cast<size_t>(std::min(count, call.record_capacity)));
  const uint8_t* from = image + call.records.begin;
  for (TraceRecord& to : seen.trace) {
    attest_trace_record r;
    std::memcpy(&r, from, sizeof r);
    from += sizeof r;
    to = {r.b, r.h, r.row, r.split, r.sequence, r.key_begin, r.key_end, r.m, r.l, r.scale};
  }
  const auto before = [](const TraceRecord& x, const TraceRecord& y) {
    return std::tie(x.b, x.h, x.row, x.split, x.sequence) < std::tie(y.b, y.h, y.row, y.split, y.sequence);
  };
  if (!std::is_sorted(seen.trace.begin(), seen.trace.end(), before)) std::sort(seen.trace.begin(), seen.trace.end(), before);
}

}  // namespace

namespace {

// What stands for the functions of a kernel that runs elsewhere: whether they are there can be asked, and nothing else.
int32_t elsewhere_supports(const attest_args*, char* reason, size_t size) {
  std::snprintf(reason, size, "this kernel runs in a worker");
  return 0;
}
attest_status elsewhere_forward(const attest_args*, void*, char* message, size_t size) {
  std::snprintf(message, size, "this kernel runs in a worker");
  return ATTEST_FAILED;
}
attest_status elsewhere_merge(const attest_state*, const attest_state*, const attest_state*, void*, char* message, size_t size) {
  std::snprintf(message, size, "this kernel runs in a worker");
  return ATTEST_FAILED;
}
uint64_t elsewhere_capacity(const attest_args*) { return 0; }

// The table of a kernel in a worker, from what the worker told of it.
struct RemoteTable {
  wire::Description told;
  attest_kernel table{};

  explicit RemoteTable(const wire::Description& description) : told(description) {
    // A name is printed; what was too long was cut, perhaps within a character.
    const auto clean = [](char* text, size_t size) {
      text[size - 1] = 0;
      std::snprintf(text, size, "%s", one_line(text, size - 1).substr(0, size - 1).c_str());
    };
    for (auto* text : {told.name, told.version, told.device_name}) clean(text, wire::kNameBytes);
    clean(told.further, sizeof told.further);
    for (uint32_t* n : {&told.type_count, &told.head_width_count, &told.tile_count, &told.split_count, &told.order_count, &told.p_type_count}) *n = std::min(*n, wire::kMostEntries);
    table.abi_version = ATTEST_ABI_VERSION;
    table.struct_size = sizeof table;
    table.name = told.name;
    table.version = told.version;
    table.device = told.device;
    table.features = told.features;
    table.types = told.types;
    table.type_count = told.type_count;
    table.head_widths = told.head_widths;
    table.head_width_count = told.head_width_count;
    table.head_width_max = told.head_width_max;
    table.tiles = told.tiles;
    table.tile_count = told.tile_count;
    table.splits = told.splits;
    table.split_count = told.split_count;
    table.orders = told.orders;
    table.order_count = told.order_count;
    table.p_types = told.p_types;
    table.p_type_count = told.p_type_count;
    table.conventions = told.conventions;
    table.numerics = told.numerics;
    table.supports = elsewhere_supports;
    table.forward = elsewhere_forward;
    table.merge = told.has_merge != 0 ? elsewhere_merge : nullptr;
    table.workspace_bytes = told.has_workspace != 0 ? elsewhere_capacity : nullptr;
    table.trace_capacity = told.has_trace != 0 ? elsewhere_capacity : nullptr;
    table.reentrant = told.reentrant;
  }
};

}  // namespace

struct Kernel::Impl {
  std::shared_ptr<const RemoteTable> remote;  // of an isolated kernel
  const attest_kernel* table = nullptr;
  std::string name;
  std::string device = "cpu";
  std::string spec;                     // as it was loaded
  std::string further;
  std::optional<Isolation> isolation;
  std::function<void(const Problem&, const Observation&)> tell_lost;
  std::shared_ptr<std::mutex> serial = std::make_shared<std::mutex>();

  std::mutex mutex;
  std::condition_variable given_back;
  std::vector<std::unique_ptr<Place>> idle;
  size_t busy = 0;

  // A place for one call. The one that this thread had last where it is idle, so that a thread keeps to its worker.
  std::unique_ptr<Place> take() {
    {
      std::unique_lock lock(mutex);
      if (isolation && table->device != kDLCPU) given_back.wait(lock, [&] { return !idle.empty() || busy < kMostDeviceWorkers; });
      ++busy;
      if (!idle.empty()) {
        auto at = std::find_if(idle.begin(), idle.end(), [&](const auto& p) { return p.get() == mine; });
        if (at == idle.end()) at = idle.end() - 1;
        auto place = std::move(*at);
        idle.erase(at);
        return place;
      }
    }
    try {
      return make();
    } catch (...) {
      release(nullptr);
      throw;
    }
  }
  // nullptr: it is of no use any more.
  void release(std::unique_ptr<Place> place) {
    std::lock_guard lock(mutex);
    --busy;
    mine = place.get();
    if (place != nullptr) idle.push_back(std::move(place));
    given_back.notify_one();
  }
  std::unique_ptr<Place> make() const {
    if (!isolation) return in_process(*table, serial);
    auto started = Worker::start(spec, *isolation);
    if (auto* error = std::get_if<LoadError>(&started)) throw Lost(RunStatus::crashed, error->message);
    return std::move(std::get<std::unique_ptr<Worker>>(started));
  }

  static thread_local const Place* mine;  // the place that this thread used last; may be gone
};
thread_local const Place* Kernel::Impl::mine = nullptr;

namespace {

// A place of `pool` for one call; given back when this ends, unless an exception tells that it is of no use any more.
template <class Pool>
class Borrowed {
 public:
  explicit Borrowed(Pool& pool) : pool_(pool), place_(pool.take()) {}
  ~Borrowed() { pool_.release(std::uncaught_exceptions() > exceptions_ ? nullptr : std::move(place_)); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Place* operator->() const { return place_.get(); }

 private:
  Pool& pool_;
  std::unique_ptr<Place> place_;
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace

const attest_kernel& Kernel::table() const { return *impl_->table; }
std::string Kernel::name() const { return impl_->name; }
std::string Kernel::device() const { return impl_->device; }
std::string Kernel::further() const { return impl_->further; }
bool Kernel::isolated() const { return impl_->isolation.has_value(); }
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

std::variant<Kernel, LoadError> Kernel::load(const std::string& name, const std::optional<Isolation>& asked) {
  const std::optional<Isolation> isolation = !asked && is_python(name) ? Isolation{} : asked;
  if (isolation) {
    auto started = Worker::start(name, *isolation);
    if (auto* error = std::get_if<LoadError>(&started)) return *error;
    auto& worker = std::get<std::unique_ptr<Worker>>(started);
    const auto remote = std::make_shared<const RemoteTable>(worker->description());
    if (const std::string fault = table_fault(remote->table); !fault.empty()) return LoadError{LoadError::Kind::bad_plugin, "plug-in '" + name + "' " + fault};
    Kernel k = from_table(&remote->table);
    k.impl_->remote = remote;
    k.impl_->isolation = isolation;
    k.impl_->spec = name;
    k.impl_->device = remote->told.device_name;
    k.impl_->further = remote->told.further;
    if (is_built_in(name)) k.impl_->name = name;
    k.impl_->idle.push_back(std::move(worker));
    return k;
  }
  auto found = find_table(name);
  if (auto* error = std::get_if<LoadError>(&found)) return *error;
  Kernel k = from_table(std::get<FoundTable>(found).table);
  k.impl_->further = std::get<FoundTable>(found).further;
  if (is_built_in(name)) k.impl_->name = name;
  if (k.table().device == kDLCUDA) {
    std::string why;
    const auto arena = cuda_arena(why);
    if (arena == nullptr) return LoadError{LoadError::Kind::no_device, "kernel '" + name + "' needs a CUDA device: " + why};
    k.impl_->device = arena->device();
  }
  return k;
}

Kernel Kernel::alone() const {
  Kernel k;
  k.impl_ = std::make_shared<Impl>();
  k.impl_->remote = impl_->remote;
  k.impl_->table = impl_->table;
  k.impl_->name = impl_->name;
  k.impl_->device = impl_->device;
  k.impl_->spec = impl_->spec;
  k.impl_->isolation = impl_->isolation;
  return k;
}

std::string Kernel::end_workers() const {
  if (!isolated()) return "";
  std::vector<std::unique_ptr<Place>> ending;
  {
    const std::lock_guard lock(impl_->mutex);
    ending.swap(impl_->idle);
  }
  std::string wrong;
  for (const auto& place : ending) {
    const std::string how = static_cast<Worker&>(*place).end();
    if (wrong.empty()) wrong = how;
  }
  return wrong;
}

void Kernel::when_lost(std::function<void(const Problem&, const Observation&)> tell) const { impl_->tell_lost = std::move(tell); }

std::string Kernel::refuses(const Problem& problem) const {
  if (std::string why = outside_features(problem, table()); !why.empty()) return why;
  try {
    Borrowed kernel(*impl_);
    const Needs needs = kernel->ask(describe(problem, has(ATTEST_LSE), false));
    return needs.supported != 0 ? "" : one_line(needs.reason);
  } catch (const Lost&) {
    return "";  // a run meets it again, and has an Observation to say so
  }
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
  const auto unsupported = [&](const std::string& why) {
    seen.status = RunStatus::unsupported;
    seen.message = one_line(why);
  };
  if (const std::string why = outside_features(p, t); !why.empty()) return unsupported(why);
  const bool want_lse = options.want_lse && has(ATTEST_LSE);
  const bool want_trace = options.trace && traceable();

  // One image of everything, guard bands between; what may change is what outputs, workspace and trace cover.
  PlannedCall call = describe(p, want_lse, want_trace);
  call.captured = options.captured ? 1 : 0;
  try {
    Borrowed kernel(*impl_);
    Needs needs;
    // A worker that has to tell nothing but yes or no does so when it is called: half the way.
    if (!isolated() || t.workspace_bytes != nullptr || want_trace) {
      needs = kernel->ask(call);
      if (needs.supported == 0) return unsupported(needs.reason);
      call.asked = 1;
    }
    place_tensors(call, p, needs);

    const Parts parts = parts_of(call, p);
    const uint64_t size = call.plan.size;
    uint8_t* image = kernel->room(size);
    // Runs once with outputs filled with `poison`; false where the kernel did not finish.
    const auto run_once = [&](uint8_t poison) {
      fill_image(parts, size, poison, image);
      const Outcome out = kernel->forward(call, image);
      seen.seconds = out.seconds;
      if (out.status == ATTEST_OK) return true;
      seen.status = out.status == ATTEST_UNSUPPORTED ? RunStatus::unsupported : RunStatus::failed;
      seen.message = one_line(out.message);
      return false;
    };

    uint8_t poison = options.poison != 0 ? options.poison : kFirstPoison;
    bool finished = run_once(poison);
    if (finished && options.check_memory && !still_poison(parts, poison, image).empty()) {
      // The poison may be the right result by chance: only what keeps two kinds of it was not written.
      poison = poison == kSecondPoison ? kFirstPoison : kSecondPoison;
      finished = run_once(poison);
      if (finished) seen.unwritten = still_poison(parts, poison, image);
    }
    if (finished) {
      read_outputs(call, p, image, seen);
      if (want_trace) read_trace(call, image, seen);
      if (options.check_memory)
        if (const uint64_t byte = first_change(parts, size, poison, image); byte < size) tell_change(parts, byte, seen);
    }
  } catch (const Lost& loss) {
    seen.status = loss.status;
    seen.message = loss.what();
    if (impl_->tell_lost) impl_->tell_lost(p, seen);
  } catch (const DeviceError& e) {
    seen.status = RunStatus::crashed;
    seen.message = e.what();
  } catch (const std::bad_alloc&) {
    seen.status = RunStatus::failed;
    seen.message = "out of memory for a problem of " + std::to_string(call.plan.size) + " bytes";
  }
}

std::pair<Observation, Observation> Kernel::run_together(const Problem& first, const Problem& second) const {
  std::pair<Observation, Observation> seen;
  const auto both = [&](RunStatus status, const std::string& why) {
    for (Observation* one : {&seen.first, &seen.second}) {
      one->status = status;
      one->message = one_line(why);
    }
    return seen;
  };
  for (const Problem* p : {&first, &second})
    if (const std::string why = outside_features(*p, table()); !why.empty()) return both(RunStatus::unsupported, why);
  PlannedCall a = describe(first, has(ATTEST_LSE), false), b = describe(second, has(ATTEST_LSE), false);
  try {
    Borrowed kernel(*impl_);
    for (const auto& [call, problem] : {std::pair<PlannedCall*, const Problem*>{&a, &first}, {&b, &second}}) {
      const Needs needs = kernel->ask(*call);
      if (needs.supported == 0) return both(RunStatus::unsupported, needs.reason);
      call->asked = 1;
      place_tensors(*call, *problem, needs);
    }
    const uint64_t at = second_image(a);
    uint8_t* image = kernel->room(at + b.plan.size);
    std::memset(image, kGuardByte, at);
    fill_image(parts_of(a, first), a.plan.size, kFirstPoison, image);
    fill_image(parts_of(b, second), b.plan.size, kFirstPoison, image + at);
    const Outcome out = kernel->forward_two(a, b, image);
    if (out.status != ATTEST_OK) return both(out.status == ATTEST_UNSUPPORTED ? RunStatus::unsupported : RunStatus::failed, out.message);
    read_outputs(a, first, image, seen.first);
    read_outputs(b, second, image + at, seen.second);
  } catch (const Lost& loss) {
    both(loss.status, loss.what());
    if (impl_->tell_lost) impl_->tell_lost(first, seen.first);
  } catch (const DeviceError& e) {
    both(RunStatus::crashed, e.what());
  } catch (const std::bad_alloc&) {
    both(RunStatus::failed, "out of memory for two problems at once");
  }
  return seen;
}

Merged Kernel::merge(const PartialStates& a, const PartialStates& b) const {
  if (table().merge == nullptr) return {RunStatus::unsupported, "the kernel offers no merge", {}};
  const PlannedMerge call = describe_merge(static_cast<int64_t>(a.lse.size()), a.width);
  Merged merged;
  try {
    Borrowed kernel(*impl_);
    uint8_t* image = kernel->room(call.plan.size);
    std::memset(image, kGuardByte, call.plan.size);
    const auto put = [&](const CallTensor& to, const std::vector<float>& values) {
      if (!values.empty()) std::memcpy(image + to.region.begin, values.data(), 4 * values.size());
    };
    put(call.o[0], a.o);
    put(call.lse[0], a.lse);
    put(call.o[1], b.o);
    put(call.lse[1], b.lse);
    const Outcome out = kernel->merge(call, image);
    if (out.status != ATTEST_OK) return {out.status == ATTEST_UNSUPPORTED ? RunStatus::unsupported : RunStatus::failed, one_line(out.message), {}};
    const auto get = [&](const CallTensor& from, size_t count) {
      std::vector<float> values(count);
      if (count > 0) std::memcpy(values.data(), image + from.region.begin, 4 * count);
      return values;
    };
    merged.state = {a.width, get(call.o[2], a.o.size()), get(call.lse[2], a.lse.size())};
  } catch (const Lost& loss) {
    return {loss.status, loss.what(), {}};
  } catch (const DeviceError& e) {
    return {RunStatus::crashed, e.what(), {}};
  }
  return merged;
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
