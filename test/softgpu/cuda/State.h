//===- State.h - State of the software driver -------------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_CUDA_STATE_H
#define MOE_TEST_SOFTGPU_CUDA_STATE_H

#include "test/softgpu/cuda/Timeline.h"

#include <set>

namespace softcuda {

enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kInvalidPtx = 218,
  kUnsupportedPtxVersion = 222,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kOutOfResources = 701,
  kTimeout = 702,
  kAlreadyRegistered = 712,
  kNotRegistered = 713,
  kMisaligned = 716,
  kLaunchFailed = 719,
  kNotPermitted = 800,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCapturedEvent = 907,
  kUpdateFailure = 910
};

struct Gpu {
  int ordinal = 0;
  GpuOptions options;
  std::unique_ptr<softgpu::SoftGpu> soft;
  /// Locked while an operation runs, and by calls that change its memory.
  std::mutex running;
  /// Number of bytes at each address.
  std::map<uint64_t, uint64_t> allocations;
  uint64_t allocatedBytes = 0;
  int retained = 0;
  Result error = kSuccess; ///< Error of a kernel, which later calls return.
  softgpu::SectorCache l2; ///< Contents of L2, for the simulated clock.
};

struct Module {
  Gpu *gpu = nullptr;
  std::unique_ptr<softgpu::Program> program;
  struct Function {
    Gpu *gpu;
    const softgpu::Kernel *kernel;
    /// Upper limit of dynamic memory that was asked for. Without that, 48 KiB
    /// of static and dynamic memory together are allowed.
    std::optional<uint32_t> dynamicShared = {};
    softgpu::Resources resources = {};
    bool wasLaunched = false;
  };
  std::vector<std::unique_ptr<Function>> functions;
};
using Function = Module::Function;

/// The work of an operation; a graph may run it many times.
struct Work {
  enum Kind : uint8_t {
    Kernel,
    Copy,
    Set,
    Host,
    Wait,
    Write,
    Empty
  } kind = Empty;
  Gpu *gpu = nullptr;
  std::string name;
  std::function<void(Operation &)> run;
  std::function<bool()> isThere;
  std::function<void(Operation &)> prepare;
  softgpu::Range hostReads, hostWrites; ///< Same meaning as in Operation.
  bool isMapped = false;
  uint32_t *flag = nullptr;
  bool isReleased = false;
  /// The kernel; null if the operation is something else.
  const Function *function = nullptr;
};

struct Graph;
struct Node {
  Work work;
  std::vector<size_t> after;    ///< Indices of nodes in the same graph.
  const void *stream = nullptr; ///< The stream on which the node was captured.
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
};

struct Exec {
  std::vector<std::unique_ptr<Node>> nodes;
  /// Nodes of the graph from which this one was instantiated.
  std::vector<const Node *> origins;
  std::map<std::pair<const void *, const void *>, uint32_t> chains;
  OperationPtr last;
};

/// A stream capture in progress.
struct Capture {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  int mode = 0;           ///< 0: global, 1: thread-local, 2: relaxed.
  std::thread::id thread; ///< The thread that began the capture.
  const void *origin = nullptr;
  bool isInvalid = false;
  std::set<size_t> open; ///< Nodes that have no successor.
};

struct Stream {
  Gpu *gpu = nullptr;
  bool isBlocking = true; ///< Whether it synchronises with the default stream.
  uint32_t chain = 0;     ///< Number of the stream's chain in stamps (Order.h).
  OperationPtr last;
  std::vector<OperationPtr> waits; ///< Operations that the next one waits for.
  std::shared_ptr<Capture> capture;
  std::vector<size_t> captured; ///< Nodes that precede the next one.
};

struct Event {
  Gpu *gpu = nullptr;
  bool isBlocking = false; ///< Whether a host thread sleeps while it waits.
  OperationPtr last;       ///< Null if the event was never recorded.
  std::shared_ptr<Capture> capture;
  std::vector<size_t> captured;
};

/// Host memory that GPUs can access.
struct HostRange {
  uint64_t bytes = 0;
  bool isOwned = false; ///< Whether cuMemHostAlloc has allocated it.
  bool isMapped = false;
  std::vector<uint64_t> addresses; ///< Device address on each GPU.
};

struct State {
  Options options;
  Totals totals;
  std::vector<std::string> findings;
  std::vector<softgpu::LaunchTime> times;
  std::vector<std::unique_ptr<Gpu>> gpus;
  std::map<const void *, std::unique_ptr<Stream>> streams;
  std::map<const void *, std::unique_ptr<Event>> events;
  std::map<const void *, std::unique_ptr<Module>> modules;
  std::map<const void *, std::unique_ptr<Graph>> graphs;
  std::map<const void *, std::unique_ptr<Exec>> execs;
  /// Default stream of each GPU.
  std::vector<std::unique_ptr<Stream>> defaults;
  std::map<uint64_t, HostRange> host; ///< Keys are addresses.
  std::set<std::shared_ptr<Capture>> captures;
  /// Order of accesses to GPU memory and to accessible host memory.
  AccessOrder order;
  std::unique_ptr<Timeline> timeline;
  /// Guards `findings`, `times`, `order` and `totals`, which operations change.
  std::mutex log;

  /// Stops the timeline first, because running operations use all of the above.
  ~State() {
    if (timeline)
      timeline->stop();
  }
  void find(std::string what);
};

/// The state of this process, and the lock that every call holds except while
/// it waits.
State &state();
std::unique_lock<std::mutex> &lockOfThisThread();

/// The GPU of this thread's current context; null without one.
Gpu *currentGpu();

/// Counts the call. Returns a result if the call must end at once: a failure
/// that the test asked for, no context, or an earlier error.
std::optional<Result> begin(const char *symbol, bool needsContext);

/// Every entry point begins with one of these.
#define SOFTCUDA_BEGIN(needsContext)                                           \
  softcuda::Entry entry;                                                       \
  if (auto early = softcuda::begin(__func__, needsContext))                    \
  return *early

/// Holds the lock of all calls while it lives.
class Entry {
public:
  Entry();
  ~Entry();
};

/// Releases the lock while the host waits for an operation, so that other
/// threads may call.
void waitFor(const OperationPtr &operation);
bool hasEnded(const OperationPtr &operation);

/// Waits, as waitFor() does, until the GPU's queue has room for an operation.
void waitForRoom(const Gpu &gpu);

/// Returns an error for calls that a capture forbids: allocation and
/// synchronisation (in thread-local mode only for the capturing thread), and
/// for all threads anything on a captured stream. The capture becomes invalid.
std::optional<Result> refuseInCapture(const char *symbol,
                                      const Stream *stream = nullptr);

/// Returns a handle's stream; null is the current GPU's default stream.
Stream *streamOf(void *handle);

/// Returns what is alive of a GPU; null: of all of them.
std::vector<std::string> liveOf(const Gpu *gpu);

OperationPtr operationOf(const Work &work, uint32_t chain);
struct CubinSource {
  std::string ptx;
  softgpu::Resources resources;
};
const CubinSource *sourceOfCubin(std::string_view cubin);
std::vector<Gpu *> &contextsOfThisThread();

/// Puts work on a stream, or into the graph that it captures.
Result submit(Stream &stream, Work work, OperationPtr *operation = nullptr);

/// Waits until all operations on a GPU have ended.
void drain(Gpu &gpu);

/// Memory of a GPU or the host, looked up by address, and its owner.
struct Bytes {
  uint8_t *data = nullptr; ///< Null if the address is unknown.
  Gpu *gpu = nullptr;      ///< Null if the memory is the host's.
  bool isPinned = false;
  bool isMapped = false; ///< Whether a GPU has an address for the memory.
  softgpu::Allocation *allocation = nullptr;
};
Bytes bytesAt(uint64_t address, uint64_t bytes);

/// Returns the address by which `state().order` knows a byte: for mapped memory
/// the host's.
uint64_t orderedAddress(uint64_t address);

/// Records that an operation touched these bytes; reports accesses that nothing
/// orders.
void touch(Operation &operation, softgpu::AccessedRanges &touched);

} // namespace softcuda

#endif // MOE_TEST_SOFTGPU_CUDA_STATE_H
