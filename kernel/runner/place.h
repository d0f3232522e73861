// place.h: where a kernel runs: in this process, or in a worker process of its own.
//
// A Place serves one call at a time. The image of a call is laid out by its plan, in the place's room; forward takes it
// to where the kernel has its memory, calls the kernel, waits for it, and brings everything back. On the CPU of this
// process the room is the kernel's memory, and nothing is copied.
// Errors: DeviceError with the driver's words. Lost: the kernel took its process with it, or did not answer; the Place
// is of no use any more.
#pragma once

#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include "kernel/runner/call.h"
#include "reference/observation.h"

namespace attest {

struct Lost : std::runtime_error {
  Lost(RunStatus status, const std::string& what) : std::runtime_error(what), status(status) {}
  RunStatus status;  // crashed or timed_out
};

class Place {
 public:
  virtual ~Place() = default;
  virtual Needs ask(const PlannedCall& call) = 0;  // of the call, nothing but its description is read
  // Bytes for an image, until room is asked for again.
  virtual uint8_t* room(size_t bytes) = 0;
  // `image` is the room, of call.plan.size bytes: before the call, then after it. Where the status is not ATTEST_OK it may
  // hold anything.
  virtual Outcome forward(const PlannedCall& call, uint8_t* image) = 0;
  // Two calls at once, each on a stream of its own, awaited together. The second image begins at second_image() of the
  // first. The first outcome that is not ATTEST_OK counts.
  virtual Outcome forward_two(const PlannedCall& first, const PlannedCall& second, uint8_t* image) = 0;
  virtual Outcome merge(const PlannedMerge& call, uint8_t* image) = 0;
};

// What both kinds of place do once the image lies where they have it.
Needs ask_kernel(const attest_kernel& table, const PlannedCall& call);

class Arena;
// Calls forward or merge on the image that lies in `arena`, and waits. `serial` is held during a call of a kernel that is
// not reentrant.
Outcome call_forward(const attest_kernel& table, const PlannedCall& call, uint8_t* base, Arena& arena, std::mutex& serial);
Outcome call_merge(const attest_kernel& table, const PlannedMerge& call, uint8_t* base, Arena& arena, std::mutex& serial);

Outcome call_forward_two(const attest_kernel& table, const PlannedCall& first, const PlannedCall& second, uint8_t* base, Arena& arena, std::mutex& serial);

// In this process. `serial` is shared by all places of one kernel. Throws DeviceError where there is no such device.
std::unique_ptr<Place> in_process(const attest_kernel& table, std::shared_ptr<std::mutex> serial);

}  // namespace attest
