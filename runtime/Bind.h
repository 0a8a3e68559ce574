//===- Bind.h - From verified tables to runnable instructions ---*- C++ -*-===//
//
// Binding turns each instruction of a phase into a kernel pointer and its
// argument struct (kernels/Abi.h), and proves on the way that the operands'
// shapes and encodings are what the kernel will assume. After it succeeds, no
// step of min_tokens to max_tokens tokens at a position within the context can
// make a kernel touch memory outside its operands.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_BIND_H
#define MOE_RUNTIME_BIND_H

#include "kernels/Registry.h"
#include "runtime/Plan.h"
#include "runtime/WeightFiles.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

namespace moert {

namespace fb {
struct Phase;
} // namespace fb

/// Memory of the one CPU device, each at least as large as the plan says.
struct DeviceMemory {
  std::byte *arena;
  std::byte *kv;
  /// Of each worker, for the buffers of which each has a copy. Binding to more
  /// or fewer workers than will run the phase is an error of the caller.
  std::span<std::byte *const> workers;
};

/// Keeps argument structs at stable addresses, in execution order.
class ArgumentStore {
public:
  template <class Args> const void *keep(const Args &args) {
    static_assert(std::is_trivially_copyable_v<Args>);
    void *place = allocate(sizeof(Args));
    std::memcpy(place, &args, sizeof(Args));
    return place;
  }

  template <class T> T *makeArray(size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    return new (allocate(count * sizeof(T))) T[count]{};
  }

private:
  void *allocate(size_t bytes);

  static constexpr size_t kChunkBytes = 16 << 10;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  size_t chunkBytes_ = 0, used_ = 0; ///< Of the last chunk.
};

struct BoundInstruction {
  moek::KernelFn kernel;
  const void *args;
  bool barrier;
  /// Every worker does all of it, as a team of one.
  bool replicated = false;
  /// By worker, where their arguments differ; else null.
  const void *const *ownArgs = nullptr;

  const void *argsOf(int32_t worker) const {
    return ownArgs ? ownArgs[worker] : args;
  }
};

/// A phase's instruction list, ready to run.
struct BoundPhase {
  std::string name;
  int32_t minTokens, maxTokens;
  std::vector<BoundInstruction> instructions;
  std::byte *input; ///< I32 tokens [T], or F32 hidden rows [T, D].
  float *output;    ///< Hidden rows [T, D], or logits [T, vocab].
  ArgumentStore arguments;
};

/// `phase` is one of `plan`'s; `plan` passed checkMachine(). Fails with
/// InvalidFile, naming phase, instruction and operand, with WrongMachine for a
/// kernel this machine cannot run.
StatusOr<BoundPhase> bindPhase(const Plan &plan, const fb::Phase &phase,
                               const DeviceMemory &memory,
                               const WeightFiles &files);

} // namespace moert

#endif // MOE_RUNTIME_BIND_H
