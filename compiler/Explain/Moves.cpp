#include "compiler/Explain/Moves.h"

#include "kernels/Activation.h"
#include "runtime/plan/PlanAccess.h"

#include <limits>

using namespace moert;

namespace moec {

namespace {

/// No device of the plan.
constexpr uint32_t kElsewhere = std::numeric_limits<uint32_t>::max();

/// Chains of copies and encodings are short; a damaged plan may have circles.
constexpr unsigned kLongestChain = 8;

bool writes(OperandRole role) {
  return role == OperandRole::Write || role == OperandRole::ReadWrite;
}

/// Calls `visit` with each operand of an instruction, as far as the plan is
/// well-formed.
template <class Visit>
void forOperands(const fb::Instruction &instruction, Visit visit) {
  const OpSpec *spec = findOp(unsigned(instruction.op()));
  if (!spec)
    return;
  size_t operands =
      std::min<size_t>(count(instruction.operands()), spec->operands.size());
  for (uint32_t i = 0; i < operands; ++i)
    visit(*instruction.operands()->Get(i), spec->operands[i]);
}

OpKind kindOf(const fb::Instruction &instruction) {
  const OpSpec *spec = findOp(unsigned(instruction.op()));
  return spec ? spec->kind : OpKind::Plain;
}

/// Returns the buffer that a copy or an encoding reads or writes.
std::optional<uint32_t> bufferOf(const fb::Instruction &instruction,
                                 bool written) {
  std::optional<uint32_t> buffer;
  forOperands(instruction,
              [&](const fb::Operand &operand, const OperandSpec &spec) {
                if (operand.kind() == fb::OperandKind::Buffer &&
                    writes(spec.role) == written)
                  buffer = operand.index();
              });
  return buffer;
}

} // namespace

Moves::Moves(const fb::Plan &plan, const fb::Phase &table,
             const PhaseCost &phase)
    : plan_(plan), phase_(table), tokens_(phase.step.tokens),
      uses_(count(table.buffers())) {
  for (Number i = 0; i < count(table.instructions()); ++i)
    forOperands(*table.instructions()->Get(i),
                [&](const fb::Operand &operand, const OperandSpec &spec) {
                  if (operand.kind() == fb::OperandKind::Buffer &&
                      operand.index() < uses_.size())
                    uses_[operand.index()].push_back({i, writes(spec.role)});
                });
  noteCopies();
}

/// Notes what the copies of all phases cost.
void Moves::noteCopies() {
  for (uint32_t p = 0; p < count(plan_.phases()); ++p) {
    const fb::Phase &phase = *plan_.phases()->Get(p);
    for (uint32_t i = 0; i < count(phase.instructions()); ++i) {
      const fb::Instruction &copy = *phase.instructions()->Get(i);
      if (kindOf(copy) != OpKind::Copies ||
          copy.explain() >= count(plan_.explanation()))
        continue;
      auto from = bufferOf(copy, false), to = bufferOf(copy, true);
      if (!from || !to || *from >= count(phase.buffers()) ||
          *to >= count(phase.buffers()))
        continue;
      Number a = phase.buffers()->Get(*from)->device(),
             b = phase.buffers()->Get(*to)->device();
      const fb::Explain &entry = *plan_.explanation()->Get(copy.explain());
      if (entry.seconds() > 0 && entry.activation_bytes() > 0)
        known_[std::minmax(a, b)][entry.activation_bytes()] = entry.seconds();
    }
  }
}

Moves::Number Moves::deviceOf(Number instruction) const {
  Number queue = phase_.instructions()->Get(instruction)->queue();
  return queue < count(plan_.queues()) ? plan_.queues()->Get(queue)->device()
                                       : kElsewhere;
}

double Moves::bytesOf(Number number) const {
  const fb::Buffer &buffer = *phase_.buffers()->Get(number);
  double rows = double(buffer.rows_per_token()) * double(tokens_) +
                double(buffer.fixed_rows());
  return rows * double(moek::encodedRowBytes(moek::Encoding(buffer.encoding()),
                                             buffer.cols()));
}

/// Returns the buffer from which an input of the op would be copied: before it
/// was copied and encoded. None for what the op makes itself, and for what each
/// device computes without inputs.
std::optional<Moves::Number> Moves::sourceOf(Number buffer, Number before,
                                             Number entry) const {
  for (unsigned i = 0; i < kLongestChain; ++i) {
    std::optional<Number> writer;
    for (const Use &use : uses_[buffer])
      if (use.writes && use.instruction < before)
        writer = use.instruction;
    if (!writer) {
      // The step's input; what else nobody has written, the op only writes.
      bool isInput = buffer == phase_.input() ||
                     int64_t(buffer) == int64_t(phase_.hidden());
      return isInput ? std::optional(buffer) : std::nullopt;
    }
    const fb::Instruction &instruction = *phase_.instructions()->Get(*writer);
    OpKind kind = kindOf(instruction);
    if (kind == OpKind::Copies || kind == OpKind::Encodes) {
      std::optional<Number> source = bufferOf(instruction, false);
      if (!source || *source >= uses_.size())
        return std::nullopt;
      buffer = *source;
      before = *writer;
      continue;
    }
    if (instruction.explain() == entry ||
        instruction.op() == uint8_t(moek::OpCode::RopeTable))
      return std::nullopt;
    return buffer;
  }
  return std::nullopt;
}

/// Returns the devices on which other ops read what the op has written.
std::set<Moves::Number> Moves::readersOf(Number buffer, Number after,
                                         Number entry, unsigned depth) const {
  std::set<Number> devices;
  if (phase_.output() == buffer)
    devices.insert(phase_.buffers()->Get(buffer)->device());
  for (const Use &use : uses_[buffer]) {
    if (use.instruction <= after)
      continue;
    const fb::Instruction &reader =
        *phase_.instructions()->Get(use.instruction);
    OpKind kind = kindOf(reader);
    bool passesOn = kind == OpKind::Copies || kind == OpKind::Encodes;
    std::optional<Number> next;
    if (passesOn && !use.writes)
      next = bufferOf(reader, true);
    if (next && *next < uses_.size() && depth < kLongestChain)
      devices.merge(readersOf(*next, use.instruction, entry, depth + 1));
    else if (reader.explain() != entry)
      devices.insert(deviceOf(use.instruction));
    // What follows reads another op's result.
    if (use.writes && reader.explain() != entry)
      break;
  }
  return devices;
}

bool Moves::hasCopyTo(Number source, Number device) const {
  for (const Use &use : uses_[source]) {
    const fb::Instruction &reader =
        *phase_.instructions()->Get(use.instruction);
    if (use.writes || kindOf(reader) != OpKind::Copies)
      continue;
    auto to = bufferOf(reader, true);
    if (to && *to < uses_.size() &&
        phase_.buffers()->Get(*to)->device() == device)
      return true;
  }
  return false;
}

std::optional<double> Moves::seconds(Number from, Number to,
                                     double bytes) const {
  auto known = known_.find(std::minmax(from, to));
  if (known == known_.end())
    return std::nullopt;
  auto [least, ofLeast] = *known->second.begin();
  auto [most, ofMost] = *known->second.rbegin();
  if (least == most) // The latency is not known: no more than this.
    return ofMost * std::max(1.0, bytes / most);
  double perByte = (ofMost - ofLeast) / (most - least);
  return std::max(0.0, ofLeast + perByte * (bytes - least));
}

MoveCopies Moves::copies(uint32_t entry, std::string_view device) const {
  MoveCopies copies;
  Number there = kElsewhere;
  for (Number i = 0; i < count(plan_.devices()); ++i)
    if (text(plan_.devices()->Get(i)->name()) == device)
      there = i;
  auto add = [&](Number from, Number to, Number buffer) {
    double bytes = bytesOf(buffer);
    ++copies.count;
    copies.bytes += bytes;
    auto seconds = this->seconds(from, to, bytes);
    copies.seconds = copies.seconds && seconds
                         ? std::optional(*copies.seconds + *seconds)
                         : std::nullopt;
  };
  std::set<Number> inputs;
  std::map<Number, Number> results; ///< Buffer to its last writer in the op.
  for (Number i = 0; i < count(phase_.instructions()); ++i) {
    const fb::Instruction &instruction = *phase_.instructions()->Get(i);
    if (instruction.explain() != entry)
      continue;
    forOperands(instruction,
                [&](const fb::Operand &operand, const OperandSpec &spec) {
                  copies.usesCache |= operand.kind() == fb::OperandKind::Kv;
                  if (operand.kind() != fb::OperandKind::Buffer ||
                      operand.index() >= uses_.size())
                    return;
                  if (writes(spec.role))
                    results[operand.index()] = i;
                  if (spec.role != OperandRole::Write)
                    if (auto source = sourceOf(operand.index(), i, entry))
                      inputs.insert(*source);
                });
  }
  for (Number input : inputs) {
    Number home = phase_.buffers()->Get(input)->device();
    if (home != there && !hasCopyTo(input, there))
      add(home, there, input);
  }
  for (auto [result, writer] : results)
    for (Number reader : readersOf(result, writer, entry))
      if (reader != there)
        add(there, reader, result);
  return copies;
}

} // namespace moec
