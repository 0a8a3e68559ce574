//===- EntryGraph.cpp - Driver calls: capture and graphs ------------------===//

#include "test/softgpu/cuda/Abi.h"
#include "test/softgpu/cuda/Launch.h"

#include <fmt/format.h>

using namespace softcuda;

namespace {
Graph *graphOf(CUgraph handle) {
  auto it = state().graphs.find(handle);
  return it == state().graphs.end() ? nullptr : it->second.get();
}
Exec *execOf(CUgraphExec handle) {
  auto it = state().execs.find(handle);
  return it == state().execs.end() ? nullptr : it->second.get();
}

void fill(Exec &exec, const Graph &graph) {
  exec.nodes.clear();
  exec.origins.clear();
  for (const auto &node : graph.nodes) {
    exec.nodes.push_back(std::make_unique<Node>(*node));
    exec.origins.push_back(node.get());
  }
}

/// Removes the nodes of a capture from its streams and events.
void leaveCapture(const Capture *capture) {
  for (auto &[handle, stream] : state().streams)
    if (stream->capture.get() == capture) {
      stream->capture = nullptr;
      stream->captured.clear();
    }
  for (auto &[handle, event] : state().events)
    if (event->capture.get() == capture) {
      event->capture = nullptr;
      event->captured.clear();
    }
  std::erase_if(state().captures,
                [&](const auto &each) { return each.get() == capture; });
}

/// Enqueues each node as an operation. The last one waits for all and belongs
/// to the stream.
int launch(Exec &exec, Stream &stream) {
  State &s = state();
  std::vector<OperationPtr> operations;
  Work begin;
  begin.gpu = stream.gpu;
  begin.name = "the start of a graph";
  OperationPtr first;
  if (Result result = submit(stream, std::move(begin), &first))
    return result;
  if (!first) // A capture would need a child graph node here.
    return kNotSupported;
  if (exec.last) { // Two launches of the same graph do not overlap.
    Work wait;
    wait.gpu = stream.gpu;
    wait.name = "an earlier launch of the graph";
    stream.waits.push_back(exec.last);
    if (Result result = submit(stream, std::move(wait), &first))
      return result;
  }
  std::vector<OperationPtr> ends;
  for (const auto &node : exec.nodes) {
    waitForRoom(*stream.gpu);
    auto [chain, isNew] = exec.chains.try_emplace({&stream, node->stream}, 0);
    if (isNew)
      chain->second = s.timeline->newChain();
    OperationPtr operation = operationOf(node->work, chain->second);
    operation->after = {first};
    for (size_t before : node->after)
      operation->after.push_back(operations[before]);
    operations.push_back(s.timeline->enqueue(std::move(operation)));
  }
  stream.waits.insert(stream.waits.end(), operations.begin(), operations.end());
  Work end;
  end.gpu = stream.gpu;
  end.name = "the end of a graph";
  if (Result result = submit(stream, std::move(end), &exec.last))
    return result;
  std::lock_guard lock(s.log);
  ++s.totals.graphLaunches;
  s.totals.graphNodes += exec.nodes.size();
  return kSuccess;
}

softgpu::LaunchShape shapeOf(const CUDA_KERNEL_NODE_PARAMS_v2 &p) {
  return {{p.gridDimX, p.gridDimY, p.gridDimZ},
          {p.blockDimX, p.blockDimY, p.blockDimZ},
          p.sharedMemBytes};
}
} // namespace

extern "C" {

int cuStreamBeginCapture_v2(CUstream handle, int mode) {
  SOFTCUDA_BEGIN(true);
  Stream *stream = handle ? streamOf(handle) : nullptr;
  if (!stream)
    return handle ? kInvalidHandle : kCaptureUnsupported;
  if (stream->capture || mode < 0 || mode > 2)
    return kInvalidValue;
  stream->capture = std::make_shared<Capture>();
  stream->capture->mode = mode;
  stream->capture->thread = std::this_thread::get_id();
  stream->capture->origin = stream;
  stream->captured.clear();
  state().captures.insert(stream->capture);
  ++state().totals.captures;
  return kSuccess;
}
int cuStreamEndCapture(CUstream handle, CUgraph *out) {
  SOFTCUDA_BEGIN(true);
  Stream *stream = handle ? streamOf(handle) : nullptr;
  if (!stream)
    return kInvalidHandle;
  *out = nullptr;
  std::shared_ptr<Capture> capture = stream->capture;
  if (!capture)
    return kInvalidValue;
  if (capture->origin != stream)
    return kCaptureUnmatched;
  // The last operations of other streams must have been joined to this one.
  bool isJoined = true;
  for (size_t node : capture->open)
    isJoined &= std::find(stream->captured.begin(), stream->captured.end(),
                          node) != stream->captured.end();
  leaveCapture(capture.get());
  if (capture->isInvalid)
    return kCaptureInvalidated;
  if (!isJoined)
    return kCaptureUnjoined;
  *out = capture->graph.get();
  state().graphs[capture->graph.get()] = std::move(capture->graph);
  return kSuccess;
}
int cuStreamIsCapturing(CUstream handle, int *status) {
  SOFTCUDA_BEGIN(true);
  Stream *stream = streamOf(handle);
  if (!stream)
    return kInvalidHandle;
  *status = !stream->capture ? 0 : stream->capture->isInvalid ? 2 : 1;
  return kSuccess;
}

int cuGraphDestroy(CUgraph handle) {
  SOFTCUDA_BEGIN(true);
  return state().graphs.erase(handle) ? kSuccess : kInvalidHandle;
}
int cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count) {
  SOFTCUDA_BEGIN(true);
  Graph *graph = graphOf(handle);
  if (!graph)
    return kInvalidHandle;
  for (size_t i = 0; nodes && i < std::min(*count, graph->nodes.size()); ++i)
    nodes[i] = graph->nodes[i].get();
  if (!nodes || *count > graph->nodes.size())
    *count = graph->nodes.size();
  return kSuccess;
}
int cuGraphNodeGetType(CUgraphNode handle, int *type) {
  SOFTCUDA_BEGIN(true);
  constexpr int kTypes[] = {0, 1, 2, 3, 8, 8, 5}; // One for each Work::Kind.
  for (auto &[key, graph] : state().graphs)
    for (auto &node : graph->nodes)
      if (node.get() == handle) {
        *type = kTypes[node->work.kind];
        return kSuccess;
      }
  return kInvalidHandle;
}

int cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph handle,
                                unsigned long long) {
  SOFTCUDA_BEGIN(true);
  Graph *graph = graphOf(handle);
  if (!graph)
    return kInvalidHandle;
  state().totals.instantiatedBusy +=
      state().timeline->othersWork(currentGpu()->ordinal);
  auto exec = std::make_unique<Exec>();
  fill(*exec, *graph);
  *out = exec.get();
  state().execs[exec.get()] = std::move(exec);
  return kSuccess;
}
int cuGraphExecDestroy(CUgraphExec handle) {
  SOFTCUDA_BEGIN(true);
  return state().execs.erase(handle) ? kSuccess : kInvalidHandle;
}
int cuGraphUpload(CUgraphExec handle, CUstream) {
  SOFTCUDA_BEGIN(true);
  return execOf(handle) ? kSuccess : kInvalidHandle;
}
int cuGraphLaunch(CUgraphExec handle, CUstream on) {
  SOFTCUDA_BEGIN(true);
  Exec *exec = execOf(handle);
  Stream *stream = streamOf(on);
  return exec && stream ? launch(*exec, *stream) : kInvalidHandle;
}

/// Updates parameters; the shape must be the same: nodes, their kinds, order
/// and functions.
int cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph from,
                         CUgraphExecUpdateResultInfo *info) {
  SOFTCUDA_BEGIN(true);
  Exec *exec = execOf(handle);
  Graph *graph = graphOf(from);
  if (!exec || !graph)
    return kInvalidHandle;
  *info = {};
  bool isSame = exec->nodes.size() == graph->nodes.size();
  for (size_t i = 0; isSame && i < exec->nodes.size(); ++i) {
    const Node &a = *exec->nodes[i], &b = *graph->nodes[i];
    isSame = a.after == b.after && a.work.kind == b.work.kind &&
             a.work.gpu == b.work.gpu;
  }
  if (!isSame) {
    info->result = 2;
    return kUpdateFailure;
  }
  fill(*exec, *graph);
  return kSuccess;
}
int cuGraphExecKernelNodeSetParams_v2(CUgraphExec handle, CUgraphNode node,
                                      const CUDA_KERNEL_NODE_PARAMS_v2 *p) {
  SOFTCUDA_BEGIN(true);
  Exec *exec = execOf(handle);
  Function *function = p ? functionOf(p->func) : nullptr;
  if (!exec || !function)
    return kInvalidHandle;
  for (size_t i = 0; i < exec->nodes.size(); ++i) {
    if (exec->origins[i] != node)
      continue;
    Work work = kernelWork(*function, shapeOf(*p), p->kernelParams);
    if (exec->nodes[i]->work.kind != Work::Kernel || !work.run)
      return kInvalidValue;
    exec->nodes[i]->work = std::move(work);
    return kSuccess;
  }
  return kInvalidValue;
}

} // extern "C"
