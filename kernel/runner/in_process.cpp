#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <vector>

#include "kernel/runner/memory.h"
#include "kernel/runner/place.h"
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

namespace attest {

namespace {

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

// call(message, size), timed, and its words kept.
template <class F>
Outcome timed(F call) {
  Outcome out;
  const auto start = std::chrono::steady_clock::now();
  out.status = call(out.message, sizeof out.message);
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  out.message[sizeof out.message - 1] = 0;
  if (out.status != ATTEST_OK && out.message[0] == 0) std::strcpy(out.message, "the kernel gives no reason");
  return out;
}

class InProcess : public Place {
 public:
  InProcess(const attest_kernel& table, std::shared_ptr<std::mutex> serial) : table_(table), serial_(std::move(serial)) {
    std::string why;
    arena_ = table.device == kDLCPU ? cpu_arena() : cuda_arena(why);
    if (arena_ == nullptr) throw DeviceError(why);
  }
  Needs ask(const PlannedCall& call) override { return ask_kernel(table_, call); }
  uint8_t* room(size_t bytes) override {
    if (table_.device == kDLCPU) return arena_->reserve(bytes);
    if (image_.size() < bytes) image_.resize(bytes);
    return image_.data();
  }
  Outcome forward(const PlannedCall& call, uint8_t* image) override {
    return moved(call.plan.size, image, [&](uint8_t* base) { return call_forward(table_, call, base, *arena_, *serial_); });
  }
  Outcome forward_two(const PlannedCall& first, const PlannedCall& second, uint8_t* image) override {
    return moved(second_image(first) + second.plan.size, image, [&](uint8_t* base) { return call_forward_two(table_, first, second, base, *arena_, *serial_); });
  }
  Outcome merge(const PlannedMerge& call, uint8_t* image) override {
    return moved(call.plan.size, image, [&](uint8_t* base) { return call_merge(table_, call, base, *arena_, *serial_); });
  }

 private:
  template <class F>
  Outcome moved(size_t size, uint8_t* image, F call) {
    if (table_.device == kDLCPU) return call(image);
    uint8_t* base = arena_->reserve(size);
    arena_->upload(image, size);
    const Outcome out = call(base);
    if (out.status == ATTEST_OK) arena_->download(image, size);
    return out;
  }

  const attest_kernel& table_;
  std::shared_ptr<std::mutex> serial_;
  std::unique_ptr<Arena> arena_;
  std::vector<uint8_t> image_;  // where the arena is not main memory
};

}  // namespace

Needs ask_kernel(const attest_kernel& table, const PlannedCall& call) {
  const Arguments a(call, nullptr, table.device);
  Needs needs;
  needs.supported = table.supports(a.get(), needs.reason, sizeof needs.reason) != 0 ? 1 : 0;
  needs.reason[sizeof needs.reason - 1] = 0;
  if (needs.supported == 0) {
    if (needs.reason[0] == 0) std::strcpy(needs.reason, "the kernel gives no reason");
    return needs;
  }
  if (table.workspace_bytes != nullptr) needs.workspace = table.workspace_bytes(a.get());
  if (call.want_trace != 0) needs.records = table.trace_capacity(a.get());
  return needs;
}

Outcome call_forward(const attest_kernel& table, const PlannedCall& call, uint8_t* base, Arena& arena, std::mutex& serial) {
  const Arguments a(call, base, table.device);
  return timed([&](char* message, size_t size) {
    std::unique_lock lock(serial, std::defer_lock);
    if (table.reentrant == 0) lock.lock();
    std::optional<ClosedGuards> closed;
    if (table.device == kDLCPU) closed.emplace(call.plan, base);
    attest_status status = ATTEST_OK;
    const auto call_it = [&] {
      status = table.forward(a.get(), arena.stream(), message, size);
      return status == ATTEST_OK;
    };
    std::string why;
    if (call.captured == 0) {
      call_it();
    } else if (!arena.replay(call_it, why)) {
      status = ATTEST_UNSUPPORTED;  // no kernel has to be fit for graphs
      if (!why.empty()) std::snprintf(message, size, "%s", why.c_str());
    }
    arena.synchronise();
    return status;
  });
}

Outcome call_forward_two(const attest_kernel& table, const PlannedCall& first, const PlannedCall& second, uint8_t* base, Arena& arena, std::mutex& serial) {
  const Arguments a(first, base, table.device), b(second, base + second_image(first), table.device);
  return timed([&](char* message, size_t size) {
    std::unique_lock lock(serial, std::defer_lock);
    if (table.reentrant == 0) lock.lock();
    arena.synchronise();  // the other stream does not wait for the images to arrive
    attest_status status = table.forward(a.get(), arena.stream(), message, size);
    if (status == ATTEST_OK) status = table.forward(b.get(), arena.other_stream(), message, size);
    arena.synchronise();
    return status;
  });
}

Outcome call_merge(const attest_kernel& table, const PlannedMerge& call, uint8_t* base, Arena& arena, std::mutex& serial) {
  const MergeArguments a(call, base, table.device);
  return timed([&](char* message, size_t size) {
    std::unique_lock lock(serial, std::defer_lock);
    if (table.reentrant == 0) lock.lock();
    const attest_status status = table.merge(a.state(0), a.state(1), a.state(2), arena.stream(), message, size);
    arena.synchronise();
    return status;
  });
}

std::unique_ptr<Place> in_process(const attest_kernel& table, std::shared_ptr<std::mutex> serial) {
  return std::make_unique<InProcess>(table, std::move(serial));
}

}  // namespace attest
