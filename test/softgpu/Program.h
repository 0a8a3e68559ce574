//===- Program.h - A kernel decoded for the interpreter ---------*- C++ -*-===//
//
// PTX is decoded once. An Op works on whole warps: its handler is the loop over
// 32 lanes for its types and modifiers; its operands are the places of
// registers, which hold 32 lanes each. Calls are inlined, so that a kernel is
// one list of Ops.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_PROGRAM_H
#define MOE_TEST_SOFTGPU_PROGRAM_H

#include "test/softgpu/Ptx.h"

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace softgpu {

inline constexpr int kLanes = 32;
using Mask = uint32_t; ///< A bit for each lane.

struct Warp;
struct Op;
using Handler = void (*)(Warp &, const Op &, Mask);

/// The kinds of instruction that counters distinguish.
enum class OpClass : uint8_t {
  Integer,
  Float,
  Half,
  Double,
  Convert,
  Special,
  Move,
  Predicate,
  Control,
  GlobalLoad,
  GlobalStore,
  SharedLoad,
  SharedStore,
  LocalAccess,
  ConstLoad,
  AsyncCopy,
  Atomic,
  Shuffle,
  Vote,
  Barrier,
  Fence,
  DotProduct,
  MatrixLoad,
  Mma,
  Warpgroup, ///< wgmma
  BulkCopy,
  Mbarrier,
  ClusterBarrier,
  Other
};
inline constexpr int kOpClasses = int(OpClass::Other) + 1;
std::string_view opClassName(OpClass opClass);

/// Place of a register: an offset in bytes in the warp's frame, or in the
/// kernel's constants if kConstant is set.
using Place = uint32_t;
inline constexpr Place kConstant = 1u << 31;
inline constexpr Place kNowhere = ~0u; ///< The operand "_", or no guard.
/// Registers begin at multiples of this: a predicate and 8 or 16 bits take one
/// unit, 32 bits two, 64 bits four.
inline constexpr uint32_t kUnit = 64;

enum class Control : uint8_t {
  None,
  Branch,
  Indexed,
  Exit,
  Barrier,
  Await, ///< Waits for something other than threads at a bar (Cluster.h).
  Trap,
  Pause
};

/// Memory order of an access: PTX's .weak, .volatile/.relaxed, .acquire,
/// .release.
enum class Order : uint8_t { Weak, Relaxed, Acquire, Release, AcquireRelease };

struct Op {
  Handler run = nullptr;
  /// Places of the results, then those of the sources.
  std::array<Place, 16> r{};
  uint8_t results = 0, sources = 0;
  Control control = Control::None;
  OpClass opClass = OpClass::Other;
  Place guard = kNowhere;
  /// Place of the mask of lanes that have to execute the op together.
  Place members = kNowhere;
  bool guardNegated = false;
  bool isStrict = false; ///< Whether every source must have been written.
  /// The handler decides which lanes of its result are defined.
  bool isShuffle = false;
  /// Whether it is a selp, of which only the chosen source counts.
  bool isSelect = false;
  bool isUniform = false; ///< .uni or .aligned: all live lanes come together.
  // Fields of memory operations.
  Space space = Space::Generic;
  Order order = Order::Weak;
  bool isGpuScope = false; ///< The scope is .gpu or .sys.
  bool isSystemScope = false;
  bool isSigned = false; ///< Whether loads extend the sign.
  uint8_t bytes = 0;     ///< Bytes of an element.
  uint8_t count = 1;     ///< Elements of a vector; number of matrices.
  uint8_t registerBytes = 0;
  /// Bytes of the address register; 0: `imm` is the address.
  uint8_t addressBytes = 8;
  uint8_t kind = 0; ///< The meaning depends on the handler.
  int64_t imm = 0;
  /// Op to branch to; if indexed, the first of Kernel::targets.
  uint32_t target = 0;
  uint32_t turn = 0; ///< The group with the lowest turn runs (Reconverge.h).
  int line = 0, sourceLine = 0;
};

enum class Special : uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  LaneId,
  WarpId,
  NwarpId,
  SmId,
  NsmId,
  GridId,
  LanemaskEq,
  LanemaskLt,
  LanemaskLe,
  LanemaskGt,
  LanemaskGe,
  DynamicShared,
  TotalShared,
  Clock,
  Clock64,
  ClockHi,
  GlobalTimer,
  GlobalTimerLo,
  GlobalTimerHi
};

struct KernelParam {
  uint64_t offset = 0, bytes = 0;
};

struct Kernel {
  std::string name;
  std::vector<Op> ops;
  std::vector<std::string> texts; ///< PTX text of each op.
  std::vector<uint32_t> targets;  ///< Targets of indexed branches.
  uint32_t frameBytes = 0;
  /// Each constant has 32 equal lanes; not aligned here.
  std::vector<std::byte> constants;
  /// Registers that are set when a warp starts.
  std::vector<std::pair<Special, Place>> specials;
  std::vector<KernelParam> params;
  uint64_t paramBytes = 0;
  /// Bytes of static shared memory, which dynamic memory follows.
  uint64_t sharedBytes = 0;
  uint64_t localBytes = 0; ///< Bytes of a thread.
  uint32_t maxThreads[3] = {0, 0, 0}, requiredThreads[3] = {0, 0, 0};
  uint32_t cluster[3] = {1, 1, 1}; ///< Numbers of blocks in a cluster.
  uint32_t clusterBlocks() const {
    return cluster[0] * cluster[1] * cluster[2];
  }
};

/// Variables of a module and their addresses.
struct ModuleVariable {
  std::string name;
  Space space = Space::Global;
  uint64_t address = 0, bytes = 0;
};

struct Program {
  int arch = 0;
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::vector<ModuleVariable> variables;
  const Kernel *find(std::string_view name) const {
    for (const auto &kernel : kernels)
      if (kernel->name == name)
        return kernel.get();
    return nullptr;
  }
};

/// Decodes every entry of `module`. `variables` are its .global and .const
/// variables, which have addresses already. An unknown opcode or modifier is an
/// error that names it.
moert::StatusOr<Program> decodePtx(const PtxModule &module,
                                   std::vector<ModuleVariable> variables);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_PROGRAM_H
