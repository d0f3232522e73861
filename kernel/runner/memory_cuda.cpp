#include <cuda_runtime_api.h>

#include "kernel/runner/memory.h"

namespace attest {

namespace {

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw DeviceError(std::string(what) + ": " + cudaGetErrorString(status));
}

class CudaArena : public Arena {
 public:
  CudaArena() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    cudaDeviceProp properties;
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    name_ = properties.name;
  }
  ~CudaArena() override {
    cudaFree(base_);
    cudaStreamDestroy(stream_);
    if (other_stream_ != nullptr) cudaStreamDestroy(other_stream_);
  }
  uint8_t* reserve(size_t bytes) override {
    if (bytes > size_) {
      check(cudaFree(base_), "cudaFree");
      base_ = nullptr;
      size_ = 0;
      const size_t wanted = bytes + bytes / 4 + (size_t{1} << 20);
      check(cudaMalloc(reinterpret_cast<void**>(&base_), wanted), "cudaMalloc");
      size_ = wanted;
    }
    return base_;
  }
  void upload(const uint8_t* image, size_t bytes) override { check(cudaMemcpyAsync(base_, image, bytes, cudaMemcpyHostToDevice, stream_), "copy to the device"); }
  void download(uint8_t* image, size_t bytes) override {
    check(cudaMemcpyAsync(image, base_, bytes, cudaMemcpyDeviceToHost, stream_), "copy from the device");
    synchronise();
  }
  void* stream() override { return stream_; }
  void* other_stream() override {
    if (other_stream_ == nullptr) check(cudaStreamCreateWithFlags(&other_stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    return other_stream_;
  }
  void synchronise() override {
    check(cudaStreamSynchronize(stream_), "kernel");
    if (other_stream_ != nullptr) check(cudaStreamSynchronize(other_stream_), "kernel");
  }
  bool replay(const std::function<bool()>& call, std::string& why) override {
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    const bool called = call();
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
    cudaGetLastError();  // what cannot be captured leaves the device as it was
    if (!called || ended != cudaSuccess) {
      if (graph != nullptr) cudaGraphDestroy(graph);
      if (called) why = std::string("the call cannot be captured into a graph: ") + cudaGetErrorString(ended);
      return false;
    }
    cudaGraphExec_t executable = nullptr;
    check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    for (int n = 0; n < 2; ++n) check(cudaGraphLaunch(executable, stream_), "cudaGraphLaunch");
    synchronise();
    check(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
    check(cudaGraphDestroy(graph), "cudaGraphDestroy");
    return true;
  }
  std::string device() const override { return name_; }

 private:
  cudaStream_t stream_ = nullptr, other_stream_ = nullptr;
  uint8_t* base_ = nullptr;
  size_t size_ = 0;
  std::string name_;
};

}  // namespace

std::unique_ptr<Arena> cuda_arena(std::string& why) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    why = std::string("none was found") + (status != cudaSuccess ? std::string(" (") + cudaGetErrorString(status) + ")" : "");
    return nullptr;
  }
  try {
    return std::make_unique<CudaArena>();
  } catch (const DeviceError& e) {
    why = e.what();
    return nullptr;
  }
}

}  // namespace attest
