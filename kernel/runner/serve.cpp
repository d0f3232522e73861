#include "kernel/runner/serve.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "kernel/runner/memory.h"
#include "kernel/runner/place.h"
#include "kernel/runner/wire.h"

namespace attest {

namespace {

constexpr int kBadStart = 2;

void copy(char* to, size_t size, const std::string& text) { std::snprintf(to, size, "%s", text.c_str()); }

template <class T>
std::string copy_list(T* to, uint32_t& count, const T* from, uint32_t n, const char* what) {
  if (n > wire::kMostEntries) return std::string("lists ") + std::to_string(n) + " " + what + ", at most " + std::to_string(wire::kMostEntries) + " can be told";
  count = n;
  std::copy(from, from + n, to);
  return "";
}

// Fills `d`; what is wrong with the table otherwise.
std::string fill(wire::Description& d, const attest_kernel& t) {
  copy(d.name, sizeof d.name, t.name);
  copy(d.version, sizeof d.version, t.version);
  d.device = t.device;
  d.reentrant = t.reentrant;
  d.has_merge = t.merge != nullptr ? 1 : 0;
  d.has_trace = t.trace_capacity != nullptr ? 1 : 0;
  d.has_workspace = t.workspace_bytes != nullptr ? 1 : 0;
  d.features = t.features;
  d.head_width_max = t.head_width_max;
  d.conventions = t.conventions;
  d.numerics = t.numerics;
  for (const std::string& fault :
       {copy_list(d.types, d.type_count, t.types, t.type_count, "types"), copy_list(d.head_widths, d.head_width_count, t.head_widths, t.head_width_count, "head widths"),
        copy_list(d.tiles, d.tile_count, t.tiles, t.tile_count, "tiles"), copy_list(d.splits, d.split_count, t.splits, t.split_count, "splits"),
        copy_list(d.orders, d.order_count, t.orders, t.order_count, "orders"), copy_list(d.p_types, d.p_type_count, t.p_types, t.p_type_count, "P types")})
    if (!fault.empty()) return fault;
  return "";
}

// glibc looks at a block's neighbours when it is taken and given back: a kernel that wrote past its own blocks is stopped
// after the case in which it did.
void probe_heap() {
  constexpr size_t kSizes[] = {24, 72, 200, 1000, 3000, 20000};
  void* blocks[std::size(kSizes)];
  for (size_t n = 0; n < std::size(kSizes); ++n) {
    blocks[n] = std::malloc(kSizes[n]);
    if (blocks[n] != nullptr) *static_cast<volatile char*>(blocks[n]) = 0;
  }
  for (void* block : blocks) std::free(block);
}

class Server {
 public:
  Server(const wire::Ends& ends) : ends_(ends) {
    request_ = static_cast<const wire::Request*>(mmap(nullptr, sizeof(wire::Request), PROT_READ, MAP_SHARED, ends.request, 0));
    reply_ = static_cast<wire::Reply*>(mmap(nullptr, sizeof(wire::Reply), PROT_READ | PROT_WRITE, MAP_SHARED, ends.reply, 0));
  }
  bool good() const { return request_ != MAP_FAILED && reply_ != MAP_FAILED; }

  bool load(const std::function<std::variant<FoundTable, LoadError>()>& find) {
    auto found = find();
    if (const auto* error = std::get_if<LoadError>(&found)) return refuse(*error);
    table_ = std::get<FoundTable>(found).table;
    if (const std::string fault = fill(reply_->description, *table_); !fault.empty())
      return refuse({LoadError::Kind::bad_plugin, "plug-in '" + std::string(table_->name) + "' " + fault});
    copy(reply_->description.further, sizeof reply_->description.further, std::get<FoundTable>(found).further);
    std::string why;
    arena_ = table_->device == kDLCPU ? cpu_arena() : cuda_arena(why);
    if (arena_ == nullptr) return refuse({LoadError::Kind::no_device, std::string("kernel '") + table_->name + "' needs a CUDA device: " + why});
    copy(reply_->description.device_name, sizeof reply_->description.device_name, arena_->device());
    reply_->loaded = 1;
    return answer(0);
  }

  // Until attest says so, or is gone.
  int run() {
    for (char byte; recv(ends_.socket, &byte, 1, 0) == 1;) {
      const wire::Request& r = *request_;
      if (r.op == wire::Op::end) return 0;
      try {
        make(r);
      } catch (const DeviceError& e) {
        reply_->device_lost = 1;
        copy(reply_->words, sizeof reply_->words, e.what());
        answer(r.sequence);
        std::_Exit(1);  // the driver's own cleaning up may hang by now
      }
      probe_heap();
      if (!answer(r.sequence)) break;
    }
    return 0;
  }

 private:
  bool refuse(const LoadError& error) {
    reply_->loaded = 0;
    reply_->load_error = static_cast<int32_t>(error.kind);
    copy(reply_->words, sizeof reply_->words, error.message);
    answer(0);
    return false;
  }
  bool answer(uint64_t sequence) {
    reply_->sequence = sequence;
    const char byte = 1;
    return send(ends_.socket, &byte, 1, MSG_NOSIGNAL) == 1;
  }
  void make(const wire::Request& r) {
    if (r.op == wire::Op::ask) {
      reply_->needs = ask_kernel(*table_, r.call);
      return;
    }
    const bool merging = r.op == wire::Op::merge, two = r.op == wire::Op::forward_two;
    for (const PlannedCall* call : {&r.call, &r.second}) {
      if (merging || call->asked != 0 || (call == &r.second && !two)) continue;
      const Needs needs = ask_kernel(*table_, *call);
      if (needs.supported == 0) {
        reply_->outcome = {};
        reply_->outcome.status = ATTEST_UNSUPPORTED;
        std::memcpy(reply_->outcome.message, needs.reason, sizeof needs.reason);
        return;
      }
    }
    if (r.image_bytes != mapped_) map(r.image_bytes);
    const size_t size = merging ? r.merging.plan.size : two ? second_image(r.call) + r.second.plan.size : r.call.plan.size;
    uint8_t* base = image_;
    const bool elsewhere = table_->device != kDLCPU;
    if (elsewhere) {
      base = arena_->reserve(size);
      arena_->upload(image_, size);
    }
    reply_->outcome = merging ? call_merge(*table_, r.merging, base, *arena_, serial_)
                      : two   ? call_forward_two(*table_, r.call, r.second, base, *arena_, serial_)
                              : call_forward(*table_, r.call, base, *arena_, serial_);
    if (elsewhere && reply_->outcome.status == ATTEST_OK) arena_->download(image_, size);
  }
  void map(uint64_t bytes) {
    if (mapped_ > 0) munmap(image_, mapped_);
    mapped_ = 0;
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ends_.image, 0);
    if (at == MAP_FAILED) throw DeviceError(std::string("the image cannot be mapped: ") + std::strerror(errno));
    image_ = static_cast<uint8_t*>(at);
    mapped_ = bytes;
  }

  wire::Ends ends_;
  const wire::Request* request_ = nullptr;
  wire::Reply* reply_ = nullptr;
  const attest_kernel* table_ = nullptr;
  std::unique_ptr<Arena> arena_;
  std::mutex serial_;
  uint8_t* image_ = nullptr;
  uint64_t mapped_ = 0;
};

}  // namespace

int serve(const std::string& text, const std::function<std::variant<FoundTable, LoadError>()>& load) {
  wire::Ends ends;
  if (std::sscanf(text.c_str(), "%d,%d,%d,%d", &ends.socket, &ends.request, &ends.reply, &ends.image) != 4) {
    std::fprintf(stderr, "attest: a worker is started by attest alone\n");
    return kBadStart;
  }
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  // However long a kernel takes, its worker ends with attest.
  std::thread([socket = ends.socket] {
    pollfd gone{socket, POLLRDHUP, 0};
    while (poll(&gone, 1, -1) < 0) {
    }
    _exit(0);
  }).detach();
  static Server server(ends);  // outlives the kernel's own static objects
  if (!server.good()) return kBadStart;
  return server.load(load) ? server.run() : 0;
}

}  // namespace attest
