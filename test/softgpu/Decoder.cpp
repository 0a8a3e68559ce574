//===- Decoder.cpp --------------------------------------------------------===//

#include "test/softgpu/Decoder.h"

#include "test/softgpu/Reconverge.h"

#include <algorithm>
#include <bit>

namespace softgpu {

static constexpr struct {
  std::string_view name;
  DecodeFunction decode;
} kOpcodes[] = {
#define SOFTGPU_OPCODE(name, function) {#name, function},
#include "test/softgpu/Opcodes.def"
#undef SOFTGPU_OPCODE
};

void Decoder::fail(const std::string &what) const {
  throw PtxError{instruction_ ? instruction_->line : 0, what};
}

// -- Modifiers.

std::string_view Decoder::peek(size_t ahead) const {
  size_t at = modifier_ + ahead;
  return at < instruction_->modifiers.size()
             ? std::string_view(instruction_->modifiers[at])
             : std::string_view();
}

bool Decoder::accept(std::string_view name) {
  if (modifier_ >= instruction_->modifiers.size() || peek() != name)
    return false;
  ++modifier_;
  return true;
}

int Decoder::chooseOr(int otherwise,
                      std::initializer_list<std::string_view> names) {
  int index = 0;
  for (std::string_view name : names) {
    if (accept(name))
      return index;
    ++index;
  }
  return otherwise;
}

int Decoder::choose(std::initializer_list<std::string_view> names) {
  int index = chooseOr(-1, names);
  if (index < 0)
    fail(peek().empty()
             ? fmt::format("'{}' lacks a modifier", instruction_->text())
             : fmt::format("unknown modifier '.{}' in '{}'", peek(),
                           instruction_->text()));
  return index;
}

PtxType Decoder::type() {
  PtxType type = ptxType(peek());
  if (type.kind == PtxType::None)
    fail(peek().empty() ? fmt::format("'{}' lacks a type", instruction_->text())
                        : fmt::format("unknown modifier '.{}' in '{}'", peek(),
                                      instruction_->text()));
  ++modifier_;
  return type;
}

// -- Operands.

const PtxOperand &Decoder::operand(size_t index) const {
  if (index >= instruction_->operands.size())
    fail(fmt::format("'{}' needs {} operands, not {}", instruction_->text(),
                     index + 1, instruction_->operands.size()));
  return instruction_->operands[index];
}

void Decoder::needOperands(size_t least, size_t most) const {
  if (operandCount() < least || operandCount() > most)
    fail(fmt::format("'{}' with {} operands", instruction_->text(),
                     operandCount()));
}

void Decoder::needArch(int arch) const {
  if (module_.arch < arch)
    fail(fmt::format("'{}' needs sm_{}, .target is sm_{}", instruction_->text(),
                     arch, module_.arch));
}

void Decoder::needOneArch() const {
  if (module_.archSuffix != 'a')
    fail(fmt::format("'{}' needs sm_{}a, .target is sm_{}",
                     instruction_->text(), module_.arch, module_.arch));
}

Place Decoder::newRegister(int bytes) {
  Place place = kernel_.frameBytes;
  uint32_t size = std::max(kUnit, uint32_t(bytes) * kLanes);
  kernel_.frameBytes += size;
  return place;
}

Place Decoder::carryFlag() {
  if (carry_ == kNowhere)
    carry_ = newRegister(0);
  return carry_;
}

Place Decoder::constant(uint64_t value, int bytes) {
  if (bytes < 8 && bytes)
    value &= (uint64_t(1) << bytes * 8) - 1;
  auto [it, isNew] = constants_.try_emplace({value, bytes}, 0);
  if (!isNew)
    return it->second;
  size_t at = kernel_.constants.size();
  it->second = Place(at) | kConstant;
  kernel_.constants.resize(at +
                           std::max<size_t>(kUnit, size_t(bytes) * kLanes));
  if (!bytes) {
    Mask mask = value ? ~Mask(0) : 0;
    std::memcpy(kernel_.constants.data() + at, &mask, sizeof(mask));
  }
  for (int lane = 0; lane < kLanes; ++lane)
    std::memcpy(kernel_.constants.data() + at + lane * bytes, &value, bytes);
  return it->second;
}

const Decoder::Register *Decoder::findRegister(const std::string &name) const {
  const auto &scopes = frames_.back().registers;
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
    if (auto it = scope->find(name); it != scope->end())
      return &it->second;
  return nullptr;
}

std::optional<Decoder::Variable>
Decoder::findVariable(const std::string &name) const {
  const auto &scopes = frames_.back().variables;
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
    if (auto it = scope->find(name); it != scope->end())
      return it->second;
  if (auto it = shared_.find(name); it != shared_.end())
    return it->second;
  for (const ModuleVariable &variable : variables_)
    if (variable.name == name)
      return Variable{variable.space, variable.address, variable.bytes};
  return std::nullopt;
}

std::optional<Place> Decoder::specialRegister(const std::string &name) {
  static const std::map<std::string_view, std::pair<Special, int>> kNames = {
      {"%tid.x", {Special::TidX, 4}},
      {"%tid.y", {Special::TidY, 4}},
      {"%tid.z", {Special::TidZ, 4}},
      {"%ntid.x", {Special::NtidX, 4}},
      {"%ntid.y", {Special::NtidY, 4}},
      {"%ntid.z", {Special::NtidZ, 4}},
      {"%ctaid.x", {Special::CtaidX, 4}},
      {"%ctaid.y", {Special::CtaidY, 4}},
      {"%ctaid.z", {Special::CtaidZ, 4}},
      {"%nctaid.x", {Special::NctaidX, 4}},
      {"%nctaid.y", {Special::NctaidY, 4}},
      {"%nctaid.z", {Special::NctaidZ, 4}},
      {"%laneid", {Special::LaneId, 4}},
      {"%warpid", {Special::WarpId, 4}},
      {"%nwarpid", {Special::NwarpId, 4}},
      {"%smid", {Special::SmId, 4}},
      {"%nsmid", {Special::NsmId, 4}},
      {"%gridid", {Special::GridId, 8}},
      {"%lanemask_eq", {Special::LanemaskEq, 4}},
      {"%lanemask_lt", {Special::LanemaskLt, 4}},
      {"%lanemask_le", {Special::LanemaskLe, 4}},
      {"%lanemask_gt", {Special::LanemaskGt, 4}},
      {"%lanemask_ge", {Special::LanemaskGe, 4}},
      {"%dynamic_smem_size", {Special::DynamicShared, 4}},
      {"%total_smem_size", {Special::TotalShared, 4}}};
  auto it = kNames.find(name);
  if (it == kNames.end())
    return std::nullopt;
  auto [place, isNew] = specials_.try_emplace(it->second.first, 0);
  if (isNew) {
    place->second = newRegister(it->second.second);
    kernel_.specials.emplace_back(it->second.first, place->second);
  }
  return place->second;
}

int Decoder::registerBytes(const PtxOperand &operand) const {
  if (operand.kind != PtxOperand::Name)
    return 0;
  const Register *found = findRegister(operand.name);
  return found ? found->bytes : 0;
}

Op &Decoder::begin(Handler handler, OpClass opClass) {
  Op op;
  op.run = handler;
  op.opClass = opClass;
  op.line = instruction_->line;
  op.sourceLine = instruction_->sourceLine;
  if (!instruction_->guard.empty()) {
    const Register *guard = findRegister(instruction_->guard);
    if (!guard || guard->bytes)
      fail(fmt::format("'{}' is not a predicate", instruction_->guard));
    op.guard = guard->place;
    op.guardNegated = instruction_->guardNegated;
  }
  kernel_.ops.push_back(op);
  kernel_.texts.push_back(instruction_->text());
  return current();
}

void Decoder::resultPlace(Place place) {
  Op &op = current();
  op.r[op.results++] = place;
}

void Decoder::sourcePlace(Place place) {
  Op &op = current();
  op.r[op.results + op.sources++] = place;
}

void Decoder::needNamedLanes() {
  Op &op = current();
  op.members = op.r[size_t(op.results + op.sources - 1)];
}

void Decoder::needAllLanes() { current().members = constant(~uint64_t(0), 4); }

void Decoder::result(const PtxOperand &operand, int bytes) {
  if (operand.kind == PtxOperand::Sink)
    return resultPlace(newRegister(bytes));
  const Register *found =
      operand.kind == PtxOperand::Name ? findRegister(operand.name) : nullptr;
  if (!found)
    fail(fmt::format("'{}' is not a register", operand.name));
  if (found->bytes != bytes)
    fail(fmt::format("'{}' has {} bits, '{}' writes {}", operand.name,
                     found->bytes * 8, instruction_->text(), bytes * 8));
  resultPlace(found->place);
}

void Decoder::source(const PtxOperand &operand, PtxType type) {
  int bytes = type.bytes();
  if (operand.kind == PtxOperand::Int) {
    uint64_t value = operand.bits;
    if (type.isFloat())
      fail(fmt::format("'{}' does not take an integer constant",
                       instruction_->text()));
    return sourcePlace(constant(value, bytes));
  }
  if (operand.kind == PtxOperand::Float) {
    uint64_t value = operand.bits;
    if (bytes == 4 && !operand.isSingle)
      value = std::bit_cast<uint32_t>(float(std::bit_cast<double>(value)));
    else if (bytes == 8 && operand.isSingle)
      value = std::bit_cast<uint64_t>(
          double(std::bit_cast<float>(uint32_t(value))));
    else if (bytes < 4)
      fail(fmt::format("'{}' does not take such a float constant",
                       instruction_->text()));
    return sourcePlace(constant(value, bytes));
  }
  if (operand.kind != PtxOperand::Name)
    fail(fmt::format("'{}' does not take such an operand",
                     instruction_->text()));
  if (const Register *found = findRegister(operand.name)) {
    if (found->bytes != bytes)
      fail(fmt::format("'{}' has {} bits, '{}' reads {}", operand.name,
                       found->bytes * 8, instruction_->text(), bytes * 8));
    return sourcePlace(found->place);
  }
  if (auto special = specialRegister(operand.name))
    return sourcePlace(*special);
  if (auto variable = findVariable(operand.name))
    return sourcePlace(constant(variable->address + operand.bits, bytes));
  fail(fmt::format("unknown name '{}'", operand.name));
}

Op &Decoder::simple(Handler handler, OpClass opClass, int resultBytes,
                    std::initializer_list<PtxType> sources) {
  needOperands(1 + sources.size(), 1 + sources.size());
  Op &op = begin(handler, opClass);
  result(size_t(0), resultBytes);
  size_t index = 1;
  for (PtxType type : sources)
    source(index++, type);
  return op;
}

std::optional<Space> Decoder::spaceOf(const PtxOperand &operand) const {
  if (operand.name.empty() || findRegister(operand.name))
    return std::nullopt;
  auto variable = findVariable(operand.name);
  return variable ? std::optional(variable->space) : std::nullopt;
}

void Decoder::address(Op &op, const PtxOperand &operand) {
  if (operand.kind != PtxOperand::Address)
    fail(fmt::format("'{}' needs an address in []", instruction_->text()));
  op.imm = int64_t(operand.bits);
  op.addressBytes = 0;
  if (operand.name.empty())
    return;
  if (const Register *found = findRegister(operand.name)) {
    if (found->bytes != 4 && found->bytes != 8)
      fail(fmt::format("'{}' is not an address", operand.name));
    op.addressBytes = uint8_t(found->bytes);
    return sourcePlace(found->place);
  }
  auto variable = findVariable(operand.name);
  if (!variable)
    fail(fmt::format("unknown name '{}'", operand.name));
  op.imm += int64_t(variable->address);
}

bool Decoder::isCallParam(const PtxOperand &operand) const {
  return spaceOf(operand) == Space::Local;
}

// -- Functions.

void Decoder::branchTo(Op &op, const std::string &label) {
  frames_.back().branches.emplace_back(uint32_t(&op - kernel_.ops.data()),
                                       label);
}

void Decoder::branchTable(Op &op, const std::string &table) {
  Frame &frame = frames_.back();
  auto it = frame.function->branchTargets.find(table);
  if (it == frame.function->branchTargets.end())
    fail(fmt::format("no .branchtargets '{}'", table));
  op.target = uint32_t(kernel_.targets.size());
  op.imm = int64_t(it->second.size());
  for (const std::string &label : it->second) {
    frame.targets.emplace_back(kernel_.targets.size(), label);
    kernel_.targets.push_back(0);
  }
}

void Decoder::leaveFunction() {
  Op &op = begin(nullptr, OpClass::Control);
  op.control = frames_.size() == 1 ? Control::Exit : Control::Branch;
  if (frames_.size() > 1)
    frames_.back().leaves.push_back(uint32_t(&op - kernel_.ops.data()));
}

/// Decodes call (results), name, (arguments): the callee's parameters are the
/// caller's .param variables.
void Decoder::callFunction() {
  std::vector<const PtxOperand *> lists;
  const PtxOperand *name = nullptr;
  std::vector<PtxOperand> results, arguments;
  for (const PtxOperand &operand : instruction_->operands) {
    if (operand.kind == PtxOperand::Vector)
      (name ? arguments : results) = operand.parts;
    else if (!name)
      name = &operand;
    else
      fail("indirect calls are not supported");
  }
  const PtxFunction *callee = nullptr;
  for (const PtxFunction &function : module_.functions)
    if (name && function.name == name->name && function.hasBody &&
        !function.isEntry)
      callee = &function;
  if (!callee)
    fail(fmt::format("call of '{}', which has no body here",
                     name ? name->name : ""));
  for (const Frame &frame : frames_)
    if (frame.function == callee)
      fail(fmt::format("'{}' calls itself", callee->name));
  if (!instruction_->guard.empty())
    fail("predicated calls are not supported");
  if (callee->results.size() != results.size() ||
      callee->params.size() != arguments.size())
    fail(fmt::format("call of '{}' with other parameters", callee->name));
  Frame frame;
  frame.function = callee;
  frame.variables.emplace_back();
  frame.registers.emplace_back();
  auto bind = [&](const PtxVariable &param, const PtxOperand &argument) {
    auto variable = findVariable(argument.name);
    if (variable && variable->space == Space::Local) {
      frame.variables[0][param.name] = *variable;
    } else if (const Register *found = findRegister(argument.name);
               found && param.space == Space::Reg) {
      frame.registers[0][param.name] = *found;
    } else {
      fail(fmt::format("'{}' is not a call parameter", argument.name));
    }
  };
  for (size_t i = 0; i < results.size(); ++i)
    bind(callee->results[i], results[i]);
  for (size_t i = 0; i < arguments.size(); ++i)
    bind(callee->params[i], arguments[i]);
  const PtxInstruction *outer = instruction_;
  size_t outerModifier = modifier_;
  frames_.push_back(std::move(frame));
  decodeBody(*callee);
  instruction_ = outer;
  modifier_ = outerModifier;
}

void Decoder::declare(const PtxVariable &variable) {
  Frame &frame = frames_.back();
  auto align = [&](uint64_t &end) {
    uint64_t address =
        (end + variable.align - 1) / variable.align * variable.align;
    end = address + variable.bytes;
    return address;
  };
  switch (variable.space) {
  case Space::Reg: {
    int bytes = variable.type.bytes();
    auto add = [&](const std::string &name) {
      frame.registers.back()[name] = {newRegister(bytes), bytes};
    };
    if (!variable.registers)
      add(variable.name);
    for (int i = 0; i < variable.registers; ++i)
      add(variable.name + std::to_string(i));
    return;
  }
  case Space::Local:
  case Space::Param: // The variable is a parameter of a call.
    frame.variables.back()[variable.name] = {
        Space::Local, align(kernel_.localBytes), variable.bytes};
    return;
  case Space::Shared:
    // A function that is inlined twice has only one copy of its shared
    // variables.
    if (!shared_.contains(variable.name))
      shared_[variable.name] = {Space::Shared, align(kernel_.sharedBytes),
                                variable.bytes};
    return;
  default:
    throw PtxError{variable.line,
                   fmt::format("'{}' cannot be declared here", variable.name)};
  }
}

void Decoder::decodeInstruction(const PtxInstruction &instruction) {
  instruction_ = &instruction;
  modifier_ = 0;
  for (const auto &opcode : kOpcodes) {
    if (opcode.name != instruction.opcode)
      continue;
    opcode.decode(*this);
    if (modifier_ < instruction.modifiers.size())
      fail(fmt::format("unknown modifier '.{}' in '{}'", peek(),
                       instruction.text()));
    return;
  }
  fail(fmt::format("unknown opcode '{}'", instruction.text()));
}

void Decoder::decodeScope(const PtxFunction &function, int scope) {
  frames_.back().registers.emplace_back();
  frames_.back().variables.emplace_back();
  for (const PtxVariable &variable : function.scopes[scope].variables)
    declare(variable);
  for (const PtxScope::Item &item : function.scopes[scope].items) {
    if (item.scope >= 0)
      decodeScope(function, item.scope);
    else if (!item.instruction.label.empty())
      frames_.back().labels[item.instruction.label] =
          uint32_t(kernel_.ops.size());
    else
      decodeInstruction(item.instruction);
  }
  frames_.back().registers.pop_back();
  frames_.back().variables.pop_back();
}

void Decoder::decodeBody(const PtxFunction &function) {
  decodeScope(function, 0);
  // A body without ret returns at its end.
  PtxInstruction end;
  end.opcode = "ret";
  end.line = function.line;
  instruction_ = &end;
  leaveFunction();
  Frame &frame = frames_.back();
  auto place = [&](const std::string &label) {
    auto it = frame.labels.find(label);
    if (it == frame.labels.end())
      throw PtxError{function.line, fmt::format("no label '{}' in '{}'", label,
                                                function.name)};
    return it->second;
  };
  for (auto &[op, label] : frame.branches)
    kernel_.ops[op].target = place(label);
  for (auto &[target, label] : frame.targets)
    kernel_.targets[target] = place(label);
  for (uint32_t op : frame.leaves)
    kernel_.ops[op].target = uint32_t(kernel_.ops.size());
  frames_.pop_back();
}

static bool isMentioned(const PtxOperand &operand, const std::string &name) {
  return operand.name == name ||
         std::any_of(
             operand.parts.begin(), operand.parts.end(),
             [&](const PtxOperand &part) { return isMentioned(part, name); });
}

/// Whether `entry`, or any function that it might call, uses a variable.
static bool isMentioned(const PtxModule &module, const PtxFunction &entry,
                        const std::string &name) {
  for (const PtxFunction &function : module.functions)
    if (&function == &entry || !function.isEntry)
      for (const PtxScope &scope : function.scopes)
        for (const PtxScope::Item &item : scope.items)
          for (const PtxOperand &operand : item.instruction.operands)
            if (isMentioned(operand, name))
              return true;
  return false;
}

void Decoder::decode(const PtxFunction &entry) {
  kernel_.name = entry.name;
  std::copy_n(entry.maxThreads, 3, kernel_.maxThreads);
  std::copy_n(entry.requiredThreads, 3, kernel_.requiredThreads);
  std::copy_n(entry.cluster, 3, kernel_.cluster);
  Frame frame;
  frame.function = &entry;
  frame.registers.emplace_back();
  frame.variables.emplace_back();
  for (const PtxVariable &param : entry.params) {
    uint64_t offset =
        (kernel_.paramBytes + param.align - 1) / param.align * param.align;
    kernel_.paramBytes = offset + param.bytes;
    kernel_.params.push_back({offset, param.bytes});
    frame.variables[0][param.name] = {Space::Param, offset, param.bytes};
  }
  // Static variables come first, because dynamic shared memory begins after the
  // last of them.
  auto eachShared = [&](auto body) {
    for (const PtxVariable &variable : module_.variables)
      if (variable.space == Space::Shared &&
          isMentioned(module_, entry, variable.name))
        body(variable);
  };
  frames_.push_back(std::move(frame));
  eachShared([&](const PtxVariable &variable) {
    if (!variable.isExtern)
      declare(variable);
  });
  for (const PtxFunction &function : module_.functions)
    if (&function == &entry || !function.isEntry)
      for (const PtxScope &scope : function.scopes)
        for (const PtxVariable &variable : scope.variables)
          if (variable.space == Space::Shared)
            declare(variable);
  eachShared([&](const PtxVariable &variable) {
    if (variable.isExtern)
      kernel_.sharedBytes = (kernel_.sharedBytes + variable.align - 1) /
                            variable.align * variable.align;
  });
  eachShared([&](const PtxVariable &variable) {
    if (variable.isExtern)
      shared_[variable.name] = {Space::Shared, kernel_.sharedBytes, 0};
  });
  decodeBody(entry);
}

moert::StatusOr<Program> decodePtx(const PtxModule &module,
                                   std::vector<ModuleVariable> variables) {
  Program program;
  program.arch = module.arch;
  try {
    for (const PtxFunction &function : module.functions) {
      if (!function.isEntry || !function.hasBody)
        continue;
      auto kernel = std::make_unique<Kernel>();
      Decoder(module, variables, *kernel).decode(function);
      orderOps(*kernel);
      program.kernels.push_back(std::move(kernel));
    }
  } catch (const PtxError &error) {
    return moert::Status(
        moert::StatusCode::InvalidFile,
        fmt::format("PTX line {}: {}", error.line, error.message));
  }
  program.variables = std::move(variables);
  return program;
}

} // namespace softgpu
