//===- CudaTest.cpp - Tests of the driver's interface ---------------------===//
//
// Programs with one error each, and their correct twins, under every timing.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/cuda/CudaTest.h"

namespace softcuda {
namespace {

INSTANTIATE_TEST_SUITE_P(Timings, CudaTest,
                         ::testing::Values(Timing::Early, Timing::Late,
                                           Timing::Seeded),
                         nameOf);

TEST_P(CudaTest, StreamsKeepTheirOrder) {
  CUstream s = stream();
  CUdeviceptr y = device(0), x = device(1);
  uint32_t *in = pinned(10), *out = pinned(0);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(x, in, kCount * 4, s), kOk);
  for (uint32_t i = 0; i < 5; ++i)
    EXPECT_EQ(launchAdd(y, x, i, s), kOk);
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(out, y, kCount * 4, s), kOk);
  EXPECT_EQ(cuStreamSynchronize(s), kOk);
  EXPECT_EQ(std::vector<uint32_t>(out, out + kCount), all(60));
  EXPECT_THAT(findings(), IsEmpty());
  Totals t = totals();
  EXPECT_EQ(t.launches, 5u);
  EXPECT_EQ(t.kernelLaunches["add"], 5u);
  EXPECT_EQ(t.bytesToDevice, kCount * 4);
  EXPECT_EQ(t.bytesToHost, kCount * 4);
  EXPECT_EQ(t.kernels["add"].globalLoads.usefulBytes, 5 * 2 * kCount * 4);
}

TEST_P(CudaTest, TwoStreamsNeedAnEvent) {
  CUstream a = stream(), b = stream();
  CUevent done = event();
  CUdeviceptr y = device(0), x = device(1);
  EXPECT_EQ(launchAdd(y, x, 1, a), kOk);
  EXPECT_EQ(cuEventRecord(done, a), kOk);
  EXPECT_EQ(cuStreamWaitEvent(b, done, 0), kOk);
  EXPECT_EQ(launchAdd(y, x, 2, b), kOk);
  EXPECT_EQ(cuStreamSynchronize(b), kOk);
  EXPECT_EQ(download(y), all(5));
  EXPECT_THAT(findings(), IsEmpty());
  // The same launches without the wait.
  EXPECT_EQ(launchAdd(y, x, 1, a), kOk);
  EXPECT_EQ(launchAdd(y, x, 2, b), kOk);
  EXPECT_EQ(cuCtxSynchronize(), kOk);
  EXPECT_THAT(findings(), Contains(HasSubstr("nothing orders the two")));
}

TEST_P(CudaTest, LateRunsOnlyWhatIsWaitedFor) {
  start(1, 89, 60'000);
  CUstream a = stream(), b = stream();
  CUdeviceptr y = device(0), z = device(0), x = device(1);
  EXPECT_EQ(launchAdd(y, x, 1, a), kOk);
  EXPECT_EQ(launchAdd(z, x, 1, b), kOk);
  // Leaves time for the kernel to run.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(cuStreamSynchronize(b), kOk);
  if (GetParam() != Timing::Seeded) {
    EXPECT_EQ(totals().launches, GetParam() == Timing::Late ? 1u : 2u);
  }
  EXPECT_EQ(cuStreamSynchronize(a), kOk);
  EXPECT_EQ(totals().launches, 2u);
}

TEST_P(CudaTest, UnorderedReadOfAnotherStreamsWriteIsFound) {
  CUstream a = stream(), b = stream();
  CUdeviceptr y = device(0), z = device(0), x = device(1);
  EXPECT_EQ(launchAdd(y, x, 1, a), kOk);
  EXPECT_EQ(launchAdd(z, y, 1, b), kOk);
  EXPECT_EQ(cuCtxSynchronize(), kOk);
  ASSERT_EQ(findings().size(), 1u);
  EXPECT_THAT(findings()[0], HasSubstr("and nothing orders the two"));
}

TEST_P(CudaTest, HalvesOfAnAllocationDoNotConflict) {
  CUstream a = stream(), b = stream();
  CUdeviceptr y = device(0), x = device(1);
  EXPECT_EQ(launchAdd(y, x, 1, a, kCount / 2), kOk);
  EXPECT_EQ(cuMemsetD32Async(x + 2 * kCount, 5, kCount / 2, b), kOk);
  EXPECT_EQ(cuCtxSynchronize(), kOk);
  EXPECT_THAT(findings(), IsEmpty());
}

TEST_P(CudaTest, MappedMemoryIsOrderedByItsHostAddress) {
  CUstream a = stream(), b = stream();
  uint32_t *host = pinned(1);
  CUdeviceptr at = 0, y = device(0), x = device(1);
  EXPECT_EQ(cuMemHostGetDevicePointer_v2(&at, host, 0), kOk);
  EXPECT_EQ(launchAdd(at, x, 1, a), kOk);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(y, host, kCount * 4, b), kOk);
  EXPECT_EQ(cuCtxSynchronize(), kOk);
  ASSERT_EQ(findings().size(), 1u);
  EXPECT_THAT(findings()[0], HasSubstr("cuMemcpyHtoDAsync_v2 of 400 bytes"));
}

TEST_P(CudaTest, ReadersMayOverlapAndAWriterMayNot) {
  CUstream a = stream(), b = stream();
  CUdeviceptr y = device(0), z = device(0), x = device(1);
  EXPECT_EQ(launchAdd(y, x, 1, a), kOk);
  EXPECT_EQ(launchAdd(z, x, 1, b), kOk); // Both launches read x.
  EXPECT_EQ(cuCtxSynchronize(), kOk);
  EXPECT_THAT(findings(), IsEmpty());
  EXPECT_EQ(launchAdd(y, x, 1, a), kOk);
  EXPECT_EQ(cuMemsetD32Async(x, 3, kCount, b), kOk);
  EXPECT_EQ(cuCtxSynchronize(), kOk);
  ASSERT_EQ(findings().size(), 1u);
  EXPECT_THAT(findings()[0], HasSubstr("cuMemsetD32Async of 400 bytes"));
  EXPECT_THAT(findings()[0], HasSubstr("kernel 'add'"));
}

TEST_P(CudaTest, TheHostsWaitOrdersOperations) {
  CUstream a = stream(), b = stream();
  CUdeviceptr y = device(0), x = device(1);
  EXPECT_EQ(launchAdd(y, x, 1, a), kOk);
  EXPECT_EQ(cuStreamSynchronize(a), kOk);
  EXPECT_EQ(launchAdd(y, x, 2, b), kOk);
  CUevent done = event();
  EXPECT_EQ(cuEventRecord(done, b), kOk);
  while (cuEventQuery(done) == kNotReady)
    std::this_thread::yield();
  EXPECT_EQ(launchAdd(y, x, 3, a), kOk);
  EXPECT_EQ(cuEventSynchronize(done), kOk);
  EXPECT_EQ(cuCtxSynchronize(), kOk);
  EXPECT_EQ(download(y), all(9));
  EXPECT_THAT(findings(), IsEmpty());
}

TEST_P(CudaTest, ParametersAreReadAtTheLaunch) {
  CUstream s = stream();
  CUdeviceptr y = device(0), x = device(0);
  uint32_t value = 4, n = kCount;
  void *parameters[] = {&y, &x, &value, &n};
  EXPECT_EQ(cuLaunchKernel(add, 2, 1, 1, 64, 1, 1, 0, s, parameters, nullptr),
            kOk);
  value = 100;
  EXPECT_EQ(cuStreamSynchronize(s), kOk);
  EXPECT_EQ(download(y), all(4));
}

TEST_P(CudaTest, PinnedMemoryIsUsedWhenTheCopyRuns) {
  start(1, 89, 60'000);
  CUstream s = stream();
  CUdeviceptr x = device(0);
  uint32_t *in = pinned(5), *out = pinned(5);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(x, in, kCount * 4, s), kOk);
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(out, x, kCount * 4, s), kOk);
  if (GetParam() == Timing::Late) {
    EXPECT_NE(out[0], 5u); // The host has read before the copy was made.
  }
  EXPECT_EQ(cuStreamSynchronize(s), kOk);
  EXPECT_EQ(out[0], 5u);
  EXPECT_THAT(findings(), IsEmpty());
  // The source changes while the copy may read it.
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(x, in, kCount * 4, s), kOk);
  in[3] = 6;
  EXPECT_EQ(cuStreamSynchronize(s), kOk);
  if (GetParam() == Timing::Late) {
    EXPECT_THAT(findings(), ElementsAre(HasSubstr("the host changed what")));
  }
}

TEST_P(CudaTest, PageableMemoryIsStaged) {
  CUstream s = stream();
  CUdeviceptr x = device(0);
  std::vector<uint32_t> in(kCount, 5), out(kCount);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(x, in.data(), kCount * 4, s), kOk);
  in.assign(kCount, 6);
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(out.data(), x, kCount * 4, s), kOk);
  EXPECT_EQ(out, all(5)); // The call has waited for the copy.
  EXPECT_THAT(findings(), IsEmpty());
}

TEST_P(CudaTest, CopiesOutOfBounds) {
  CUdeviceptr x = device(0);
  std::vector<uint32_t> host(kCount + 1);
  EXPECT_EQ(cuMemcpyHtoD_v2(x, host.data(), kCount * 4 + 4), kInvalidValue);
  EXPECT_THAT(findings(), ElementsAre(HasSubstr("cuMemcpyHtoD_v2 writes 404")));
  EXPECT_EQ(cuMemcpyDtoD_v2(x, CUdeviceptr(uintptr_t(host.data())), 4),
            kInvalidValue); // A host pointer is not a device address.
  EXPECT_EQ(
      cuMemcpyHtoD_v2(CUdeviceptr(uintptr_t(host.data())), host.data(), 4),
      kInvalidValue);
  EXPECT_EQ(cuMemFree_v2(x + 4), kInvalidValue);
  EXPECT_EQ(findings().size(), 4u);
}

TEST_P(CudaTest, MemoryIsLimited) {
  size_t free = 0, total = 0;
  EXPECT_EQ(cuMemGetInfo_v2(&free, &total), kOk);
  CUdeviceptr a = 0, b = 0;
  EXPECT_EQ(cuMemAlloc_v2(&a, free + 1), kOutOfMemory);
  EXPECT_EQ(cuMemAlloc_v2(&a, free - 4096), kOk);
  EXPECT_EQ(cuMemAlloc_v2(&b, 8192), kOutOfMemory);
  EXPECT_EQ(cuMemFree_v2(a), kOk);
  EXPECT_EQ(cuMemAlloc_v2(&b, 8192), kOk);
  EXPECT_EQ(totals().allocations, 2u);
}

TEST_P(CudaTest, AFaultStaysWithTheContext) {
  CUstream s = stream();
  CUdeviceptr y = device(0), x = device(0);
  EXPECT_EQ(launchAdd(y, x, 1, s, kCount + 1), kOk);
  EXPECT_EQ(cuStreamSynchronize(s), 700);
  EXPECT_THAT(findings(),
              ElementsAre(HasSubstr("out of bounds: kernel 'add'")));
  EXPECT_EQ(launchAdd(y, x, 1, s), 700);
  CUdeviceptr z = 0;
  EXPECT_EQ(cuMemAlloc_v2(&z, 4), 700);
}

TEST_P(CudaTest, GraphsRunWhatWasCaptured) {
  CUstream s = stream(), t = stream();
  CUevent fork = event(), join = event();
  CUdeviceptr y = device(0), z = device(0), x = device(1);
  EXPECT_EQ(launchAdd(z, x, 0, s), kOk); // The first launch loads the function.
  EXPECT_EQ(cuStreamSynchronize(s), kOk);
  EXPECT_EQ(cuStreamBeginCapture_v2(s, 0), kOk);
  int status = 0;
  EXPECT_EQ(cuStreamIsCapturing(s, &status), kOk);
  EXPECT_EQ(status, 1);
  EXPECT_EQ(launchAdd(y, x, 1, s), kOk);
  EXPECT_EQ(cuEventRecord(fork, s), kOk);
  EXPECT_EQ(cuStreamWaitEvent(t, fork, 0), kOk);
  EXPECT_EQ(launchAdd(z, y, 10, t), kOk);
  EXPECT_EQ(cuEventRecord(join, t), kOk);
  // A grid without blocks is refused.
  EXPECT_EQ(launchAdd(x, x, 0, s, 0), kInvalidValue);
  EXPECT_EQ(cuStreamWaitEvent(s, join, 0), kOk);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(s, &graph), kOk);
  size_t nodes = 0;
  EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &nodes), kOk);
  EXPECT_EQ(nodes, 2u);
  EXPECT_EQ(download(y), all(0)); // No launch has run.
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), kOk);
  EXPECT_EQ(cuGraphDestroy(graph), kOk);
  EXPECT_EQ(cuGraphLaunch(exec, s), kOk);
  EXPECT_EQ(cuGraphLaunch(exec, s), kOk);
  EXPECT_EQ(cuStreamSynchronize(s), kOk);
  EXPECT_EQ(download(y), all(4));
  EXPECT_EQ(download(z), all(1 + 12 + 14));
  Totals done = totals();
  EXPECT_EQ(done.captures, 1u);
  EXPECT_EQ(done.graphLaunches, 2u);
  EXPECT_EQ(done.graphNodes, 4u);
}

TEST_P(CudaTest, RacesInGraphsAreFound) {
  CUstream s = stream(), t = stream();
  CUevent fork = event(), join = event();
  CUdeviceptr y = device(0), x = device(1);
  EXPECT_EQ(launchAdd(y, x, 0, s), kOk);
  EXPECT_EQ(cuStreamSynchronize(s), kOk);
  EXPECT_EQ(cuStreamBeginCapture_v2(s, 0), kOk);
  EXPECT_EQ(cuEventRecord(fork, s), kOk);
  EXPECT_EQ(cuStreamWaitEvent(t, fork, 0), kOk);
  EXPECT_EQ(launchAdd(y, x, 1, s), kOk);
  EXPECT_EQ(launchAdd(y, x, 1, t), kOk);
  EXPECT_EQ(cuEventRecord(join, t), kOk);
  EXPECT_EQ(cuStreamWaitEvent(s, join, 0), kOk);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuStreamEndCapture(s, &graph), kOk);
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), kOk);
  EXPECT_EQ(cuGraphLaunch(exec, s), kOk);
  EXPECT_EQ(cuStreamSynchronize(s), kOk);
  EXPECT_THAT(findings(), ElementsAre(HasSubstr("nothing orders the two")));
}

// A change by the host between launches is not a change during a copy.
TEST_P(CudaTest, AGraphsCopyReadsNewContentsEachTime) {
  CUstream s = stream();
  CUdeviceptr x = device(0);
  void *pinned = nullptr;
  EXPECT_EQ(cuMemHostAlloc(&pinned, kCount * 4, 0), kOk);
  auto *values = static_cast<uint32_t *>(pinned);
  EXPECT_EQ(cuStreamBeginCapture_v2(s, 0), kOk);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(x, pinned, kCount * 4, s), kOk);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuStreamEndCapture(s, &graph), kOk);
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), kOk);
  for (uint32_t launch : {1, 2, 3}) {
    std::fill_n(values, kCount, launch);
    // From the second launch on, contents are unknown in advance.
    if (launch > 1) {
      EXPECT_EQ(cuLaunchHostFunc(
                    s, [](void *) {}, nullptr),
                kOk);
    }
    EXPECT_EQ(cuGraphLaunch(exec, s), kOk);
    EXPECT_EQ(cuStreamSynchronize(s), kOk);
    EXPECT_EQ(download(x), all(launch));
  }
  EXPECT_THAT(findings(), IsEmpty());
  EXPECT_EQ(cuGraphExecDestroy(exec), kOk);
  EXPECT_EQ(cuGraphDestroy(graph), kOk);
  EXPECT_EQ(cuMemFreeHost(pinned), kOk);
}

TEST_P(CudaTest, GraphsAreUpdated) {
  CUstream s = stream();
  CUdeviceptr y = device(0), z = device(0), x = device(1);
  EXPECT_EQ(launchAdd(y, x, 0, s), kOk);
  EXPECT_EQ(cuStreamSynchronize(s), kOk);
  auto capture = [&](CUdeviceptr to, int launches) {
    EXPECT_EQ(cuStreamBeginCapture_v2(s, 0), kOk);
    for (int i = 0; i < launches; ++i)
      EXPECT_EQ(launchAdd(to, x, 1, s), kOk);
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(s, &graph), kOk);
    return graph;
  };
  CUgraph first = capture(y, 1), second = capture(z, 1), longer = capture(y, 2);
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, first, 0), kOk);
  CUgraphExecUpdateResultInfo info;
  EXPECT_EQ(cuGraphExecUpdate_v2(exec, second, &info), kOk);
  EXPECT_EQ(cuGraphLaunch(exec, s), kOk);
  EXPECT_EQ(cuStreamSynchronize(s), kOk);
  EXPECT_EQ(download(z), all(2));
  EXPECT_EQ(cuGraphExecUpdate_v2(exec, longer, &info), 910);
  EXPECT_EQ(info.result, 2);
  // Reads the parameters of one node.
  CUgraphNode node = nullptr;
  size_t one = 1;
  EXPECT_EQ(cuGraphGetNodes(second, &node, &one), kOk);
  int type = -1;
  EXPECT_EQ(cuGraphNodeGetType(node, &type), kOk);
  EXPECT_EQ(type, 0);
  uint32_t value = 40, n = kCount;
  void *parameters[] = {&z, &x, &value, &n};
  CUDA_KERNEL_NODE_PARAMS_v2 p{add, 2, 1,          1,       64,      1,
                               1,   0, parameters, nullptr, nullptr, nullptr};
  EXPECT_EQ(cuGraphExecKernelNodeSetParams_v2(exec, node, &p), kOk);
  EXPECT_EQ(cuGraphLaunch(exec, s), kOk);
  EXPECT_EQ(cuStreamSynchronize(s), kOk);
  EXPECT_EQ(download(z), all(2 + 41));
}

TEST_P(CudaTest, CaptureForbidsAllocationAndWaiting) {
  CUdeviceptr x = device(0), y = 0;
  std::vector<uint32_t> host(kCount);
  CUstream s = stream(), other = stream();
  CUevent e = event();
  void *memory = nullptr;
  CUmodule loaded = nullptr;
  std::vector<std::function<int()>> forbidden = {
      [&] { return cuMemAlloc_v2(&y, 4); },
      [&] { return cuMemFree_v2(x); },
      [&] { return cuMemHostAlloc(&memory, 4, 0); },
      [&] { return cuModuleLoadData(&loaded, kModule); },
      [&] { return cuStreamSynchronize(s); },
      [&] { return cuStreamSynchronize(other); },
      [&] { return cuStreamQuery(s); },
      [&] { return cuEventSynchronize(e); },
      [&] { return cuCtxSynchronize(); },
      [&] { return cuMemcpyHtoD_v2(x, host.data(), 4); },
      [&] { return cuMemsetD32_v2(x, 0, 1); }};
  for (auto &call : forbidden) {
    size_t before = findings().size();
    EXPECT_EQ(cuStreamBeginCapture_v2(s, 0), kOk);
    EXPECT_EQ(call(), kUnsupported);
    EXPECT_EQ(launchAdd(x, x, 0, s), kInvalidated);
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(s, &graph), kInvalidated);
    EXPECT_EQ(graph, nullptr);
    EXPECT_GT(findings().size(), before);
  }
  // In relaxed mode they are allowed.
  EXPECT_EQ(cuStreamBeginCapture_v2(s, 2), kOk);
  EXPECT_EQ(cuMemAlloc_v2(&y, 4), kOk);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(s, &graph), kOk);
}

TEST_P(CudaTest, CapturesMustBeJoinedAndIndependent) {
  CUdeviceptr x = device(0);
  CUstream s = stream(), t = stream();
  CUevent fork = event(), outside = event();
  EXPECT_EQ(launchAdd(x, x, 0, t), kOk);
  EXPECT_EQ(cuEventRecord(outside, t), kOk);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamBeginCapture_v2(s, 0), kOk);
  EXPECT_EQ(cuEventRecord(fork, s), kOk);
  EXPECT_EQ(cuStreamWaitEvent(t, fork, 0), kOk);
  EXPECT_EQ(launchAdd(x, x, 0, t), kOk);
  EXPECT_EQ(cuStreamEndCapture(t, &graph), 903);
  EXPECT_EQ(cuStreamEndCapture(s, &graph), kUnjoined);
  EXPECT_EQ(cuStreamBeginCapture_v2(s, 0), kOk);
  EXPECT_EQ(cuStreamWaitEvent(s, outside, 0), kIsolation);
  EXPECT_EQ(cuStreamEndCapture(s, &graph), kInvalidated);
}

TEST_P(CudaTest, ThreadLocalCaptureForbidsCallsOfThatThreadOnly) {
  CUdeviceptr x = device(0);
  CUstream s = stream(), other = stream();
  EXPECT_EQ(launchAdd(x, x, 0, other), kOk);
  auto elsewhere = [&](CUstream what) {
    int result = -1;
    std::thread([&] {
      EXPECT_EQ(cuCtxPushCurrent_v2(contexts[0]), kOk);
      result = cuStreamSynchronize(what);
    }).join();
    return result;
  };
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamBeginCapture_v2(s, 1), kOk);
  EXPECT_EQ(elsewhere(other), kOk);
  EXPECT_EQ(cuStreamEndCapture(s, &graph), kOk);
  EXPECT_THAT(findings(), IsEmpty());
  EXPECT_EQ(cuStreamBeginCapture_v2(s, 1), kOk);
  EXPECT_EQ(elsewhere(s), kUnsupported);
  EXPECT_EQ(cuStreamEndCapture(s, &graph), kInvalidated);
  EXPECT_EQ(cuStreamBeginCapture_v2(s, 1), kOk);
  EXPECT_EQ(cuStreamSynchronize(other), kUnsupported);
  EXPECT_EQ(cuStreamEndCapture(s, &graph), kInvalidated);
}

TEST_P(CudaTest, FirstLaunchesInACaptureAreFound) {
  CUdeviceptr x = device(0);
  CUstream s = stream();
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamBeginCapture_v2(s, 0), kOk);
  EXPECT_EQ(launchAdd(x, x, 0, s), kOk);
  EXPECT_EQ(cuStreamEndCapture(s, &graph), kOk);
  EXPECT_THAT(findings(), ElementsAre(HasSubstr(
                              "launched for the first time in a capture")));
}

TEST_P(CudaTest, HostFunctionsRunInOrder) {
  CUstream s = stream();
  CUdeviceptr x = device(0);
  uint32_t *in = pinned(1);
  EXPECT_EQ(cuLaunchHostFunc(
                s, [](void *p) { *static_cast<uint32_t *>(p) = 42; }, in),
            kOk);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(x, in, 4, s), kOk);
  EXPECT_EQ(cuStreamSynchronize(s), kOk);
  EXPECT_EQ(download(x)[0], 42u);
  EXPECT_THAT(findings(), IsEmpty());
  EXPECT_EQ(cuLaunchHostFunc(
                s, [](void *) { EXPECT_EQ(cuCtxSynchronize(), 800); }, nullptr),
            kOk);
  EXPECT_EQ(cuStreamSynchronize(s), kOk);
  EXPECT_THAT(findings(), ElementsAre(HasSubstr("a host function calls")));
}

TEST_P(CudaTest, SharedMemoryAbove48KiBMustBeRequested) {
  CUfunction shared = function("shared");
  CUdeviceptr y = device(0);
  void *parameters[] = {&y};
  auto launch = [&](unsigned bytes) {
    return cuLaunchKernel(shared, 1, 1, 1, 1, 1, 1, bytes, nullptr, parameters,
                          nullptr);
  };
  EXPECT_EQ(launch(60000), kInvalidValue);
  EXPECT_EQ(cuFuncSetAttribute(shared, 8, 102400), kInvalidValue);
  EXPECT_EQ(cuFuncSetAttribute(shared, 8, 60000), kOk);
  EXPECT_EQ(launch(60000), kOk);
  EXPECT_EQ(cuCtxSynchronize(), kOk);
  int bytes = 0, blocks = 0;
  EXPECT_EQ(cuFuncGetAttribute(&bytes, 1, shared), kOk);
  EXPECT_EQ(bytes, 64);
  EXPECT_EQ(
      cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, shared, 128, 49000),
      kOk);
  EXPECT_EQ(blocks, 2);
}

// A kernel that is compiled with a cluster's size needs no attribute.
TEST_P(CudaTest, GridsHaveWholeClusters) {
  start(1, 90);
  CUmodule clusters = nullptr;
  CUfunction meet = nullptr;
  EXPECT_EQ(cuModuleLoadData(&clusters, R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry meet() .explicitcluster .reqnctapercluster 4, 1, 1 {
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
ret;
}
)"),
            kOk);
  EXPECT_EQ(cuModuleGetFunction(&meet, clusters, "meet"), kOk);
  auto launch = [&](unsigned blocks) {
    return cuLaunchKernel(meet, blocks, 1, 1, 64, 1, 1, 0, nullptr, nullptr,
                          nullptr);
  };
  EXPECT_EQ(launch(8), kOk);
  EXPECT_EQ(cuCtxSynchronize(), kOk);
  EXPECT_THAT(findings(), IsEmpty());
  EXPECT_EQ(launch(6), kInvalidValue);
  EXPECT_THAT(findings(),
              ElementsAre(HasSubstr("no multiple of its clusters")));
}

TEST_P(CudaTest, RegisteredMemory) {
  std::vector<uint32_t> host(4096, 3);
  CUdeviceptr at = 0, y = device(0);
  EXPECT_EQ(cuMemHostRegister_v2(host.data(), host.size() * 4, 8), 801);
  EXPECT_EQ(cuMemHostRegister_v2(host.data(), host.size() * 4, 2), kOk);
  EXPECT_EQ(cuMemHostRegister_v2(host.data() + 8, 64, 0), 712);
  EXPECT_EQ(cuMemHostGetDevicePointer_v2(&at, host.data(), 0), kOk);
  EXPECT_NE(at, uintptr_t(host.data()));
  EXPECT_EQ(launchAdd(y, at, 0, nullptr), kOk);
  EXPECT_EQ(cuMemHostUnregister(host.data()), kOk);
  EXPECT_EQ(download(y), all(3));
  EXPECT_EQ(cuMemHostUnregister(host.data()), 713);
  static const uint32_t kConstant[1024] = {1};
  EXPECT_EQ(cuMemHostRegister_v2(const_cast<uint32_t *>(kConstant),
                                 sizeof(kConstant), 0),
            kInvalidValue); // The pages are read-only.
}

TEST_P(CudaTest, ImagesAreChosenAsByADriver) {
  options().gpus[0].gpu.arch = 75;
  reset(options());
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&contexts[0], 0), kOk);
  EXPECT_EQ(cuCtxPushCurrent_v2(contexts[0]), kOk);
  // The module has PTX for sm_80.
  EXPECT_EQ(cuModuleLoadData(&module, kModule), 218);
  int major = 0, minor = 0;
  EXPECT_EQ(cuDeviceGetAttribute(&major, 75, 0), kOk);
  EXPECT_EQ(cuDeviceGetAttribute(&minor, 76, 0), kOk);
  EXPECT_EQ(major * 10 + minor, 75);
}

TEST_P(CudaTest, LaterPtxNeedsALaterDriver) {
  options().driverVersion = 11080;
  std::string text = kModule;
  CUmodule other = nullptr;
  // PTX 8.0 needs CUDA 12.0.
  EXPECT_EQ(cuModuleLoadData(&other, text.c_str()), 222);
  text.replace(text.find("8.0"), 3, "7.8");
  EXPECT_EQ(cuModuleLoadData(&other, text.c_str()), kOk);
}

TEST_P(CudaTest, TwoGpus) {
  start(2);
  CUdeviceptr x = device(1), y = device(0);
  EXPECT_EQ(cuCtxPushCurrent_v2(contexts[1]), kOk);
  CUdeviceptr far = device(0);
  CUstream s = stream();
  uint32_t *between = pinned(0);
  EXPECT_EQ(cuCtxPopCurrent_v2(nullptr), kOk);
  CUstream t = stream();
  CUevent done = event();
  EXPECT_EQ(launchAdd(y, x, 4, t), kOk);
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(between, y, kCount * 4, t), kOk);
  EXPECT_EQ(cuEventRecord(done, t), kOk);
  EXPECT_EQ(cuStreamWaitEvent(s, done, 0), kOk);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(far, between, kCount * 4, s), kOk);
  EXPECT_EQ(cuStreamSynchronize(s), kOk);
  EXPECT_EQ(download(far), all(5));
  EXPECT_THAT(findings(), IsEmpty());
  // One GPU's address on the other.
  EXPECT_EQ(launchAdd(far, x, 4, t), kOk);
  EXPECT_EQ(cuStreamSynchronize(t), 700);
}

TEST_P(CudaTest, LeaksAreNamed) {
  CUdeviceptr x = device(0);
  stream();
  event();
  EXPECT_THAT(live(), Contains(HasSubstr("400 bytes of GPU 0")));
  EXPECT_THAT(live(), Contains("1 streams"));
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), kOk);
  EXPECT_THAT(findings(), Contains(HasSubstr("the context ended with 400")));
  EXPECT_THAT(findings(), Contains(HasSubstr("ended with 1 events")));
  EXPECT_THAT(reset(), Contains("1 modules"));
  EXPECT_THAT(live(), IsEmpty());
  (void)x;
}

TEST_P(CudaTest, LeaksAreReportedPerGpu) {
  start(2);
  EXPECT_EQ(cuCtxPushCurrent_v2(contexts[1]), kOk);
  device(0);
  stream();
  EXPECT_EQ(cuModuleUnload(module), kOk);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), kOk);
  EXPECT_THAT(findings(), IsEmpty());
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(1), kOk);
  EXPECT_THAT(findings(), ElementsAre(HasSubstr("400 bytes of GPU 1"),
                                      HasSubstr("1 streams")));
}

TEST_P(CudaTest, FailuresCanBeRequested) {
  options().failures["cuMemAlloc_v2"] = 2;
  CUdeviceptr x = 0;
  EXPECT_EQ(cuMemAlloc_v2(&x, 4), kOutOfMemory);
  EXPECT_EQ(totals().calls["cuMemAlloc_v2"], 1u);
}

} // namespace
} // namespace softcuda
