//===- PlanBuilder.h - Builds plans by hand, for tests ----------*- C++ -*-===//
//
// A small writer of plan.fb and plan.weights on the flatbuffers object API. It
// places buffers one after another and puts a barrier before every instruction;
// tests edit `plan` where they need something else.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SUPPORT_PLANBUILDER_H
#define MOE_TEST_SUPPORT_PLANBUILDER_H

#include "kernels/Abi.h"
#include "runtime/schema/plan_generated.h"
#include "test/support/TempDir.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moetest {

namespace fb = moert::fb;

/// An operand of an instruction.
struct Ref {
  fb::OperandKind kind = fb::OperandKind::None;
  uint32_t index = 0;
};

class PhaseBuilder;

class PlanBuilder {
public:
  /// Creates one CPU device with a queue, with kernels of `isa`.
  PlanBuilder(int64_t hidden, int64_t vocab, int32_t context,
              std::string isa = "ref");

  /// An F32 weight [outer, rows, cols]; its values go into plan.weights.
  Ref weight(std::string name, std::vector<int64_t> shape,
             std::span<const float> values);
  Ref constant(std::string name, std::vector<float> values);
  /// Adds a cache of `pages` pages; 0: enough for a context.
  Ref kv(int64_t width, moek::KvType type = moek::KvType::F32,
         int64_t pages = 0);
  /// Adds a layer's state for `rows` sequences.
  Ref state(int64_t width, int64_t rows);
  PhaseBuilder phase(std::string name, int32_t minTokens, int32_t maxTokens);
  uint32_t kernel(const std::string &name);

  /// Records checksums and samples of plan.weights, as moec does.
  bool recordsContent = false;

  /// Returns the bytes of plan.fb for the present `plan`; sets `files` to
  /// describe plan.weights.
  std::vector<uint8_t> bytes();
  /// Returns the bytes of plan.fb for the present `plan`, with `files`
  /// unchanged.
  std::vector<uint8_t> pack() const;
  /// Writes both files and returns the path of plan.fb.
  std::string write(const TempDir &folder);

  const std::string &isa() const { return isa_; }
  std::span<const uint8_t> weightBytes() const { return weights_; }
  std::span<uint8_t> weightBytes() { return weights_; }

  fb::PlanT plan;

private:
  friend class PhaseBuilder;
  Ref addKv(std::unique_ptr<fb::KvT> kv);
  std::string isa_;
  std::vector<uint8_t> weights_;
};

/// Adds to the phase that was created last.
class PhaseBuilder {
public:
  PhaseBuilder(PlanBuilder &owner, size_t index)
      : owner_(owner), index_(index) {}

  Ref buffer(std::string name, int64_t cols,
             moek::Encoding encoding = moek::Encoding::F32,
             int64_t rowsPerToken = 1, int64_t fixedRows = 0);
  /// `op` is named as in OpTable; kernels are those of the plan's ISA, gemms
  /// are F32.
  void emit(std::string_view op, std::vector<Ref> operands,
            std::vector<int64_t> ints = {}, std::vector<double> floats = {});
  void input(Ref buffer) { table().input = buffer.index; }
  void output(Ref buffer) { table().output = buffer.index; }

  fb::PhaseT &table() { return *owner_.plan.phases[index_]; }

private:
  PlanBuilder &owner_;
  size_t index_;
  uint64_t end_ = 0;
};

} // namespace moetest

#endif // MOE_TEST_SUPPORT_PLANBUILDER_H
