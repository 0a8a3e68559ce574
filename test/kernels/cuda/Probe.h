//===- Probe.h - Measures a GPU, its link and its driver --------*- C++ -*-===//

#ifndef MOE_TEST_KERNELS_CUDA_PROBE_H
#define MOE_TEST_KERNELS_CUDA_PROBE_H

#include "runtime/device/cuda/CudaContext.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

namespace moek::test {

using namespace moert;

/// Pinned memory that the device can address.
struct Mapped {
  CudaOwned<void *> memory;
  cu::DevicePointer address = 0;
  template <class T> T *host(size_t at = 0) const {
    return static_cast<T *>(memory.get()) + at;
  }
};

/// Each measurement prints a JSON object a line.
class Probe {
public:
  /// `driver` must outlive the result.
  static StatusOr<std::unique_ptr<Probe>> open(const CudaDriver &driver,
                                               bool isSmall) {
    std::unique_ptr<Probe> p(new Probe(driver, isSmall));
    MOE_ASSIGN_OR_RETURN(p->gpu_, driver.describe(0));
    MOE_ASSIGN_OR_RETURN(p->context_,
                         CudaContext::enter(driver, p->gpu_.handle));
    MOE_ASSIGN_OR_RETURN(p->stream_, p->context_->createStream());
    MOE_ASSIGN_OR_RETURN(p->begin_, p->context_->createEvent());
    MOE_ASSIGN_OR_RETURN(p->end_, p->context_->createEvent());
    MOE_RETURN_IF_ERROR(p->load());
    return p;
  }

  Status device();
  Status launches();
  Status flagsByKernel();
  Status flagsByNodes();
  Status patterns();
  Status reads();
  Status link();
  Status pinning();

private:
  Probe(const CudaDriver &driver, bool isSmall)
      : driver_(driver), isSmall_(isSmall) {}

  const cu::Api &api() const { return driver_.api(); }
  Status check(cu::Result result, const char *what) const {
    return driver_.check(result, what);
  }
  /// Compiles and loads the kernels: the machine code or, for a driver that
  /// does not take it, the PTX.
  Status load();

  template <class... Args>
  Status launch(const char *kernel, unsigned blocks, unsigned threads,
                Args... args) {
    void *parameters[] = {&args..., nullptr};
    return check(api().cuLaunchKernel(functions_.at(kernel), blocks, 1, 1,
                                      threads, 1, 1, 0, stream_.get(),
                                      parameters, nullptr),
                 kernel);
  }
  Status synchronize() {
    return check(api().cuStreamSynchronize(stream_.get()),
                 "waiting for the device");
  }
  StatusOr<Mapped> mapped(uint64_t bytes) {
    void *memory = nullptr;
    Mapped result;
    MOE_RETURN_IF_ERROR(
        check(api().cuMemHostAlloc(&memory, bytes,
                                   cu::kHostPortable | cu::kHostMapped),
              "allocating pinned memory"));
    result.memory = {memory, api().cuMemFreeHost};
    std::memset(memory, 0, bytes);
    MOE_RETURN_IF_ERROR(
        check(api().cuMemHostGetDevicePointer_v2(&result.address, memory, 0),
              "mapping pinned memory"));
    return result;
  }

  /// Captures the work of `enqueue` into a graph.
  template <class Enqueue>
  StatusOr<CudaOwned<cu::GraphExec>> captured(const Enqueue &enqueue) {
    MOE_RETURN_IF_ERROR(check(
        api().cuStreamBeginCapture_v2(stream_.get(), cu::kCaptureOfThisThread),
        "beginning a capture"));
    Status status = enqueue();
    cu::Graph graph = nullptr;
    cu::Result ended = api().cuStreamEndCapture(stream_.get(), &graph);
    MOE_RETURN_IF_ERROR(status);
    MOE_RETURN_IF_ERROR(check(ended, "ending a capture"));
    CudaOwned<cu::Graph> owned(graph, api().cuGraphDestroy);
    cu::GraphExec executable = nullptr;
    MOE_RETURN_IF_ERROR(
        check(api().cuGraphInstantiateWithFlags(&executable, graph, 0),
              "instantiating a graph"));
    return CudaOwned<cu::GraphExec>(executable, api().cuGraphExecDestroy);
  }

  /// The least device seconds of `runs` runs of `enqueue`, after one more.
  template <class Enqueue>
  StatusOr<double> least(int runs, const Enqueue &enqueue) {
    double best = 0;
    for (int run = 0; run <= runs; ++run) {
      MOE_RETURN_IF_ERROR(
          check(api().cuEventRecord(begin_.get(), stream_.get()), "an event"));
      MOE_RETURN_IF_ERROR(enqueue());
      MOE_RETURN_IF_ERROR(
          check(api().cuEventRecord(end_.get(), stream_.get()), "an event"));
      MOE_RETURN_IF_ERROR(
          check(api().cuEventSynchronize(end_.get()), "waiting for an event"));
      float milliseconds = 0;
      MOE_RETURN_IF_ERROR(check(
          api().cuEventElapsedTime(&milliseconds, begin_.get(), end_.get()),
          "the device's clock"));
      double seconds = std::max(double(milliseconds) * 1e-3, 1e-9);
      best = run <= 1 ? seconds : std::min(best, seconds);
    }
    return best;
  }

  /// Answers each of `rounds` flags of the device with the same one.
  template <class Body>
  Status answer(const Mapped &flags, uint32_t rounds, const Body &body);
  StatusOr<double> readSeconds(cu::DevicePointer from, uint64_t bytes);
  Status registered(const char *name, int threads, bool isHuge);

  const CudaDriver &driver_;
  bool isSmall_;
  CudaGpu gpu_;
  /// Destroyed after the members that follow.
  std::unique_ptr<CudaContext> context_;
  CudaOwned<cu::Stream> stream_;
  CudaOwned<cu::Event> begin_, end_;
  CudaOwned<cu::Module> module_;
  std::map<std::string, cu::Function> functions_;
  std::string nvrtc_;
};

} // namespace moek::test

#endif // MOE_TEST_KERNELS_CUDA_PROBE_H
