//===- MachineCode.h - What an assembler makes of a kernel ------*- C++ -*-===//
//
// The interpreter executes PTX, which is in the order of the source. A GPU
// executes machine code: moves, conversions of addresses and loads of
// parameters are operands of other instructions there, some ops are several
// instructions and some pairs are one, and the instructions of a region are in
// an order that hides latency as far as registers allow. MachineCode.cpp has
// the first part, MachineSchedule.cpp the order.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_MACHINECODE_H
#define MOE_TEST_SOFTGPU_MACHINECODE_H

#include "test/softgpu/GpuModel.h"
#include "test/softgpu/Regions.h"

namespace softgpu {

/// Units of a multiprocessor. Each of its four parts (schedulers) has those
/// from Float to Tensor for itself; the parts share the others.
enum class Pipe : uint8_t {
  Free,     ///< Takes no issue slot.
  Float,    ///< F32 additions and products.
  Multiply, ///< Integer products and dp4a: part of the float lanes.
  Integer,  ///< Logic, comparisons, selections, right shifts.
  Adder,   ///< Additions and left shifts, on Integer or (as products) Multiply.
  Special, ///< Special functions and slow conversions: 4 lanes.
  Double,
  Tensor,
  Global, ///< Loads, stores and atomics of global and local memory.
  Shared,
  Copy,          ///< cp.async
  Commit,        ///< cp.async.commit_group
  Wait,          ///< cp.async.wait_group; `groups` may remain.
  Product,       ///< wgmma.mma_async
  ProductFence,  ///< wgmma.fence, at which the four warps wait for each other.
  ProductCommit, ///< wgmma.commit_group
  ProductWait,   ///< wgmma.wait_group; `groups` may remain.
  BulkCopy,      ///< cp.async.bulk
  ExpectBytes,   ///< mbarrier.arrive.expect_tx
  AwaitBytes,    ///< mbarrier.try_wait
  ClusterArrive, ///< barrier.cluster.arrive
  ClusterWait,
  Shuffle,
  Branch,
  Barrier,
  Fence,
  Other ///< Takes only an issue slot.
};

struct MachineOp {
  uint32_t op = 0; ///< Index in Kernel::ops.
  Pipe pipe = Pipe::Free;
  uint8_t slots = 1; ///< Number of machine instructions, all on this pipe.
  uint8_t reads = 0, writes = 0;
  uint16_t latency = 0;  ///< Cycles from issue to result, without queues.
  uint16_t interval = 1; ///< Cycles that an instruction occupies its pipe.
  uint16_t groups = 0;
  /// For wgmma: the warp's share of bytes from shared memory.
  uint16_t operandBytes = 0;
  int32_t record = -1; ///< Index of the op's Access in the region; -1: none.
  /// Index in `registers` of the op's reads, which writes follow.
  uint32_t registers = 0;
  /// Number of the 128 bytes (8 instructions) of code that have the op.
  uint32_t line = 0;
};

struct MachineRegion {
  uint32_t begin = 0, end = 0; ///< Range in MachineCode::ops.
  uint32_t spills = 0;         ///< Loads and stores of spilled registers.
};

struct MachineCode {
  std::vector<MachineRegion> regions; ///< One for each of Regions::all.
  /// Ops of one region after the other, in the order of issue.
  std::vector<MachineOp> ops;
  std::vector<uint32_t> registers;
  uint32_t registerCount = 0;
  uint32_t instructions = 0; ///< Number of instructions of the whole kernel.
};

/// Resources of a kernel, as the assembler reports them.
struct Resources {
  int registers = 255; ///< Registers of a thread.
  int spilledBytes = 0;
  int sharedBytes = 0; ///< Bytes of static shared memory.
};

MachineCode machineCodeOf(const Kernel &kernel, const Regions &regions,
                          const GpuModel &gpu, const Resources &resources);

/// Puts a region's ops in the order in which they issue. `widths` has the
/// number of 32-bit registers that each register takes, `isLive` whether it is
/// read after the region; at most `limit` registers of 32 bits are in use at a
/// time, if the ops allow it.
void scheduleRegion(const Kernel &kernel, const MachineCode &code,
                    const std::vector<uint8_t> &widths,
                    const std::vector<bool> &isLive, int limit,
                    std::span<MachineOp> ops);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_MACHINECODE_H
