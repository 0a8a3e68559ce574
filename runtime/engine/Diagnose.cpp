#include "runtime/engine/Diagnose.h"

#include "kernels/Activation.h"
#include "kernels/Registry.h"
#include "kernels/quant/Dequant.h"
#include "kernels/quant/Rows16.h"
#include "runtime/base/Finite.h"
#include "runtime/plan/OpenLaunches.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/Recompile.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace moert {

namespace {
using moek::Encoding;

/// Contents of a buffer after an instruction of a step.
struct Content {
  std::vector<std::byte> data;
  Encoding encoding;
  int64_t cols, rows;

  /// Returns the index of the first element that is not finite. Of A8 rows only
  /// the scales are checked, and the index is that of the row's first element.
  std::optional<int64_t> firstBroken() const {
    if (encoding == Encoding::I32)
      return std::nullopt;
    bool isA8 = moek::isA8(encoding);
    int64_t rowBytes = moek::encodedRowBytes(encoding, cols);
    for (int64_t row = 0; row < rows; ++row) {
      const auto *values = reinterpret_cast<const float *>(
          data.data() + row * rowBytes +
          (isA8 ? moek::a8ScaleOffset(cols) : 0));
      std::span<const float> checked(
          values, size_t(isA8 ? cols / moek::kA8Block : cols));
      if (allFinite(checked))
        continue;
      auto finite = [](float value) { return std::isfinite(value); };
      return row * cols + (isA8 ? 0
                                : std::ranges::find_if_not(checked, finite) -
                                      checked.begin());
    }
    return std::nullopt;
  }
};

/// Rows of one matrix of a weight that hold values that are not finite.
struct BrokenRows {
  int64_t matrix, first, count;
};

bool isWritten(OperandRole role) {
  return role == OperandRole::Write || role == OperandRole::ReadWrite;
}

bool isRead(OperandRole role) {
  return role == OperandRole::Read || role == OperandRole::ReadWrite;
}

/// An instruction of the step that may have written the first such value.
class Suspect {
public:
  Suspect(const Plan &plan, const WeightFiles &files, const Devices &devices,
          const fb::Phase &phase, uint32_t index, const moek::Step &step)
      : path_(plan.path()), plan_(plan.table()), files_(files),
        devices_(devices), phase_(phase), index_(index), step_(step),
        instruction_(*phase.instructions()->Get(index)),
        spec_(*findOp(instruction_.op())) {}

  /// Zeroes the outputs that no instruction of `before` reads. Kernels leave
  /// some bytes of an output unwritten, such as positions of the cache that no
  /// token attends to; their old contents must not look like results.
  Status clearOutputs(std::span<const Suspect> before) const {
    for (uint32_t i = 0; i < spec_.operands.size(); ++i) {
      if (spec_.operands[i].role != OperandRole::Write)
        continue;
      DeviceRegion out = region(i);
      bool isInput = false;
      for (uint32_t j = 0; j < spec_.operands.size(); ++j)
        isInput |= spec_.operands[j].role == OperandRole::Read &&
                   isPresent(j) && buffer(j).device() == buffer(i).device() &&
                   region(j).memory == out.memory &&
                   region(j).offset == out.offset;
      for (const Suspect &other : before)
        isInput |= other.uses(buffer(i).device(), out, isRead);
      if (!isInput)
        MOE_RETURN_IF_ERROR(
            device(i).write(out, std::vector<std::byte>(out.bytes)));
    }
    return Status::ok();
  }

  /// Returns whether one of `later` wrote other data over an output of this
  /// one.
  bool isOverwritten(std::span<const Suspect> later) const {
    for (uint32_t i = 0; i < spec_.operands.size(); ++i)
      if (isWritten(spec_.operands[i].role))
        for (const Suspect &other : later)
          if (other.uses(buffer(i).device(), region(i), isWritten,
                         /*unlessEqual=*/true))
            return true;
    return false;
  }

  /// Returns the first element of an output that is not finite.
  StatusOr<std::optional<int64_t>> firstBroken() const {
    for (uint32_t i = 0; i < spec_.operands.size(); ++i)
      if (isWritten(spec_.operands[i].role)) {
        MOE_ASSIGN_OR_RETURN(Content output, content(i));
        if (std::optional<int64_t> element = output.firstBroken())
          return element;
      }
    return std::optional<int64_t>();
  }

  /// Returns the reason why `element` of the output is not finite.
  Status explain(int64_t element) const {
    for (uint32_t i = 0; i < spec_.operands.size(); ++i)
      if (spec_.operands[i].role == OperandRole::Weight && isPresent(i)) {
        MOE_ASSIGN_OR_RETURN(std::optional<BrokenRows> broken,
                             brokenRows(i, element));
        if (broken)
          return damagedWeight(i, *broken);
      }
    return overflow();
  }

private:
  bool isPresent(uint32_t operand) const {
    return instruction_.operands()->Get(operand)->kind() !=
           fb::OperandKind::None;
  }
  const fb::Buffer &buffer(uint32_t operand) const {
    return *phase_.buffers()->Get(
        instruction_.operands()->Get(operand)->index());
  }
  Device &device(uint32_t operand) const {
    return devices_.device(buffer(operand).device());
  }
  DeviceRegion region(uint32_t operand) const {
    return regionOf(buffer(operand), step_.tokens);
  }
  /// Returns whether an operand with a role accepted by `isOf` shares bytes
  /// with `other`. With `unlessEqual`, an operand equal to `other` does not
  /// count.
  bool uses(uint32_t device, const DeviceRegion &other,
            bool (*isOf)(OperandRole), bool unlessEqual = false) const {
    for (uint32_t i = 0; i < spec_.operands.size(); ++i) {
      if (!isOf(spec_.operands[i].role) || !isPresent(i) ||
          buffer(i).device() != device)
        continue;
      DeviceRegion own = region(i);
      if (own.memory == other.memory && !(unlessEqual && own == other) &&
          own.offset < other.offset + other.bytes &&
          other.offset < own.offset + own.bytes)
        return true;
    }
    return false;
  }
  StatusOr<Content> content(uint32_t operand) const {
    const fb::Buffer &b = buffer(operand);
    MOE_ASSIGN_OR_RETURN(std::span<const std::byte> bytes,
                         device(operand).read(region(operand)));
    return Content{{bytes.begin(), bytes.end()},
                   Encoding(b.encoding()),
                   b.cols(),
                   b.rows_per_token() * step_.tokens + b.fixed_rows()};
  }
  const fb::Weight &weight(uint32_t operand) const {
    return *plan_.weights()->Get(
        instruction_.operands()->Get(operand)->index());
  }
  std::optional<uint32_t> input(std::string_view name) const {
    for (uint32_t i = 0; i < spec_.operands.size(); ++i)
      if (spec_.operands[i].name == name &&
          spec_.operands[i].role == OperandRole::Read)
        return i;
    return std::nullopt;
  }

  /// Returns the expert that computed `element` of the output with its matrix
  /// of `w`, or nothing if the op has no experts.
  StatusOr<std::optional<int64_t>> expertOf(const fb::Weight &w,
                                            int64_t element) const {
    auto offsetsAt = input("offsets"), slotsAt = input("slots");
    if (!offsetsAt || !slotsAt)
      return std::optional<int64_t>();
    MOE_ASSIGN_OR_RETURN(Content offsets, content(*offsetsAt));
    MOE_ASSIGN_OR_RETURN(Content slots, content(*slotsAt));
    const auto *begin = reinterpret_cast<const int32_t *>(offsets.data.data());
    const auto *slot = reinterpret_cast<const int32_t *>(slots.data.data());
    int64_t at =
        std::find(slot, slot + slots.rows * slots.cols, element / w.rows()) -
        slot;
    return std::optional<int64_t>(
        std::upper_bound(begin, begin + w.outer(), at) - begin - 1);
  }

  /// Returns the GEMM that reads operand `operand`, or null if the op's own
  /// function reads it.
  const moek::GemmInfo *gemmOf(uint32_t operand) const {
    if (!spec_.operands[operand].gemm)
      return nullptr;
    uint32_t position = 1;
    for (uint32_t i = 0; i < operand; ++i)
      position += spec_.operands[i].gemm && isPresent(i);
    return moek::findGemm(
        text(plan_.kernels()->Get(instruction_.kernels()->Get(position))));
  }

  /// Finds broken rows in the first matrix of the weight that has any. For
  /// experts, searches only the expert that computed `element`.
  StatusOr<std::optional<BrokenRows>> brokenRows(uint32_t operand,
                                                 int64_t element) const {
    const fb::Weight &w = weight(operand);
    MOE_ASSIGN_OR_RETURN(std::optional<int64_t> expert, expertOf(w, element));
    int64_t end = expert ? *expert + 1 : w.outer();
    for (int64_t m = expert.value_or(0); m < end; ++m) {
      const uint8_t *data =
          files_.bytes(w.file()).data() + w.offset() + m * w.outer_stride();
      BrokenRows broken{m, 0, 0};
      auto note = [&](int64_t r) {
        if (broken.count++ == 0)
          broken.first = r;
      };
      if (moek::Layout(w.layout()) == moek::Layout::Gguf)
        forBrokenRows(w, data, note);
      else
        forBrokenPanelRows(w, data, *gemmOf(operand), note);
      if (broken.count != 0)
        return std::optional(broken);
    }
    return std::optional<BrokenRows>();
  }

  template <class Note>
  static void forBrokenRows(const fb::Weight &w, const uint8_t *data,
                            Note note) {
    std::vector<float> values(size_t(w.cols()));
    for (int64_t r = 0; r < w.rows(); ++r)
      if (moek::dequantizeRow(moek::Format(w.format()),
                              data + r * w.row_stride(), w.cols(),
                              values.data()) &&
          !allFinite(values))
        note(r);
  }

  /// Calls `note` for the broken rows of a layout that only GEMM kernels can
  /// read: those whose product with zeros is not zero.
  template <class Note>
  static void forBrokenPanelRows(const fb::Weight &w, const uint8_t *data,
                                 const moek::GemmInfo &gemm, Note note) {
    struct alignas(64) Line {
      std::byte bytes[64];
    };
    int64_t bytes = moek::encodedRowBytes(gemm.activation, w.cols());
    std::vector<Line> zeros(size_t(bytes / 64 + 1), Line{});
    const auto *act = reinterpret_cast<const uint8_t *>(zeros.data());
    for (int64_t r = 0; r < w.rows(); r += moek::kRows16) {
      int64_t count = std::min(moek::kRows16, w.rows() - r);
      float products[moek::kRows16];
      moek::resolveGemm(gemm.name)(data + r * w.row_stride(), w.row_stride(),
                                   count, &act, 1, w.cols(), products, count);
      for (int64_t i = 0; i < count; ++i)
        if (products[i] != 0)
          note(r + i);
    }
  }

  /// Returns the op's name as in `moec explain`, such as "blk.3.ffn_router".
  std::string label() const {
    const fb::Explain *explained = opOf(plan_, instruction_);
    std::string op = explained ? labelOf(*explained) : "";
    if (!op.empty())
      return printable(op);
    return fmt::format("{}, instruction {} ({})", text(phase_.name()), index_,
                       spec_.name);
  }

  Status damagedWeight(uint32_t operand, const BrokenRows &broken) const {
    const fb::Weight &w = weight(operand);
    const fb::File &file = *plan_.files()->Get(w.file());
    std::string matrix;
    if (w.outer() > 1)
      matrix = fmt::format(", {} {}", input("slots") ? "expert" : "head",
                           broken.matrix);
    std::string where =
        file.kind() == fb::FileKind::Model
            ? fmt::format("{} is damaged; copy it again",
                          printable(text(file.path())))
            : fmt::format("{}, or the model that it was made from, is damaged",
                          printable(text(file.path())));
    Status damaged = invalidPlan(
        "{}: {}{} holds values that are not finite in {} of {}, the first in "
        "row {} (found in {}): {}",
        path_, printable(text(w.name())), matrix, broken.count,
        counted(uint64_t(w.rows()), "row"), broken.first, label(), where);
    if (file.kind() == fb::FileKind::Model)
      return damaged;
    return std::move(damaged).suggesting(
        recompile(Suggestion::DamagedModel, plan_, path_));
  }

  /// Returns the error for finite inputs and weights: an overflow.
  Status overflow() const {
    for (uint32_t i = 0; i < spec_.operands.size(); ++i)
      if (spec_.operands[i].role == OperandRole::KvRead && isPresent(i)) {
        auto type = moek::KvType(
            plan_.kv()->Get(instruction_.operands()->Get(i)->index())->type());
        if (type == moek::KvType::F16)
          return invalidPlan(
                     "{}: values in the cache that {} reads exceed what f16 "
                     "holds",
                     path_, label())
              .suggesting(recompile(Suggestion::WiderCache, plan_, path_,
                                    {{"--kv-type", "f32"}}));
      }
    return invalidPlan("{}: an activation overflowed in {}, whose weights are "
                       "finite: a weight is damaged there or in a layer "
                       "before; check the model file against its checksum",
                       path_, label());
  }

  const std::string &path_;
  const fb::Plan &plan_;
  const WeightFiles &files_;
  const Devices &devices_;
  const fb::Phase &phase_;
  uint32_t index_;
  moek::Step step_;
  const fb::Instruction &instruction_;
  const OpSpec &spec_;
};

} // namespace

Status diagnose(const Plan &plan, const WeightFiles &files, Devices &devices,
                const RunnablePhase &phase, std::span<const std::byte> input,
                const moek::Step &step, const std::atomic<bool> *cancel) {
  MOE_RETURN_IF_ERROR(devices.setInput(phase, input));
  const fb::Phase &table = *plan.table().phases()->Get(phase.number);
  std::map<uint32_t, std::vector<Suspect>> suspects; // Suspects of each queue.
  for (uint32_t i = 0; i < count(table.instructions()); ++i) {
    const fb::Instruction &instruction = *table.instructions()->Get(i);
    std::vector<Suspect> &ofQueue = suspects[instruction.queue()];
    ofQueue.emplace_back(plan, files, devices, table, i, step);
    MOE_RETURN_IF_ERROR(ofQueue.back().clearOutputs(
        std::span<const Suspect>(ofQueue).first(ofQueue.size() - 1)));
    MOE_RETURN_IF_ERROR(devices.runAlone(phase, i, step, cancel));
    if (isLaunchedLater(plan.table(), instruction))
      continue;
    for (size_t k = 0; k < ofQueue.size(); ++k) {
      Suspect &suspect = ofQueue[k];
      // A value that was overwritten has already been checked through its
      // readers.
      if (suspect.isOverwritten(
              std::span<const Suspect>(ofQueue).subspan(k + 1)))
        continue;
      MOE_ASSIGN_OR_RETURN(std::optional<int64_t> element,
                           suspect.firstBroken());
      if (element)
        return suspect.explain(*element);
    }
    ofQueue.clear();
  }
  return invalidPlan("{}: phase {} gave values that are not finite, and finite "
                     "ones when it ran again: memory or a file changed while "
                     "it was used; run it again",
                     plan.path(), nameOf(phase.kind));
}

} // namespace moert
