#include "kernel/runner/memory.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace attest {

namespace {

class CpuArena : public Arena {
 public:
  ~CpuArena() override { std::free(base_); }
  uint8_t* reserve(size_t bytes) override {
    if (bytes > size_) {
      std::free(base_);
      size_ = (bytes + bytes / 4 + 4095) / 4096 * 4096;
      base_ = static_cast<uint8_t*>(std::aligned_alloc(4096, size_));
      if (base_ == nullptr) {
        size_ = 0;
        throw std::bad_alloc();
      }
    }
    return base_;
  }
  void upload(const uint8_t* image, size_t bytes) override { std::memcpy(base_, image, bytes); }
  void download(uint8_t* image, size_t bytes) override { std::memcpy(image, base_, bytes); }
  void* stream() override { return nullptr; }
  void* other_stream() override { return nullptr; }
  void synchronise() override {}
  bool replay(const std::function<bool()>& call, std::string&) override { return call() && call(); }
  std::string device() const override { return "cpu"; }

 private:
  uint8_t* base_ = nullptr;
  size_t size_ = 0;
};

}  // namespace

std::unique_ptr<Arena> cpu_arena() { return std::make_unique<CpuArena>(); }

#if !ATTEST_HAVE_CUDA
std::unique_ptr<Arena> cuda_arena(std::string& why) {
  why = "this build has no CUDA";
  return nullptr;
}
#endif

}  // namespace attest
