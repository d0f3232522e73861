// memory.h: where a kernel's tensors live during one run: an arena on the kernel's device, filled from an image in
// host memory and read back whole, so that one comparison shows every byte that was touched.
//
// Ownership: an arena keeps its memory and grows; one run at a time. Errors: DeviceError with the driver's words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

namespace attest {

struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Arena {
 public:
  virtual ~Arena() = default;
  virtual uint8_t* reserve(size_t bytes) = 0;                         // base on the device, aligned to 256 bytes
  virtual void upload(const uint8_t* image, size_t bytes) = 0;        // image to base
  virtual void download(uint8_t* image, size_t bytes) = 0;            // base to image
  virtual void* stream() = 0;                                         // for attest_kernel.forward
  virtual void* other_stream() = 0;                                   // runs beside the first; the same on the CPU
  virtual void synchronise() = 0;                                     // waits for both streams
  // What `call` queues on the stream is captured into a graph, and the graph runs twice. False with a reason where it
  // cannot be captured; then nothing has run. On the CPU `call` is made twice.
  virtual bool replay(const std::function<bool()>& call, std::string& why) = 0;
  virtual std::string device() const = 0;                             // "cpu" or the name of the GPU
};

std::unique_ptr<Arena> cpu_arena();
// nullptr and a reason where there is no CUDA device, or CUDA was not built.
std::unique_ptr<Arena> cuda_arena(std::string& why);

}  // namespace attest
