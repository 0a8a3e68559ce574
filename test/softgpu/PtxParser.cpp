//===- PtxParser.cpp - Parses PTX text to a PtxModule ---------------------===//

#include "test/softgpu/Ptx.h"
#include "test/softgpu/PtxLexer.h"

#include <bit>
#include <cstring>
#include <fmt/format.h>

namespace softgpu {

PtxType ptxType(std::string_view name) {
  static constexpr struct {
    std::string_view name;
    PtxType type;
  } kTypes[] = {
      {"b8", {PtxType::Bits, 8}},
      {"b16", {PtxType::Bits, 16}},
      {"b32", {PtxType::Bits, 32}},
      {"b64", {PtxType::Bits, 64}},
      {"u8", {PtxType::Unsigned, 8}},
      {"u16", {PtxType::Unsigned, 16}},
      {"u32", {PtxType::Unsigned, 32}},
      {"u64", {PtxType::Unsigned, 64}},
      {"s8", {PtxType::Signed, 8}},
      {"s16", {PtxType::Signed, 16}},
      {"s32", {PtxType::Signed, 32}},
      {"s64", {PtxType::Signed, 64}},
      {"u16x2", {PtxType::Unsigned, 16, true}},
      {"s16x2", {PtxType::Signed, 16, true}},
      {"f16", {PtxType::Float, 16}},
      {"f16x2", {PtxType::Float, 16, true}},
      {"f32", {PtxType::Float, 32}},
      {"f64", {PtxType::Float, 64}},
      {"bf16", {PtxType::Bfloat, 16}},
      {"bf16x2", {PtxType::Bfloat, 16, true}},
      {"tf32", {PtxType::Tf, 32}},
      {"pred", {PtxType::Pred, 1}},
      {"e4m3x2", {PtxType::E4m3, 8, true}},
      {"e5m2x2", {PtxType::E5m2, 8, true}},
  };
  for (const auto &entry : kTypes)
    if (entry.name == name)
      return entry.type;
  return {};
}

std::string PtxInstruction::text() const {
  std::string text = opcode;
  for (const std::string &modifier : modifiers)
    text += "." + modifier;
  return text;
}

namespace {

class Parser {
public:
  explicit Parser(std::string_view text) : lexer_(text) {}
  PtxModule parse();

private:
  [[noreturn]] void fail(int line, std::string message) const {
    throw PtxError{line, std::move(message)};
  }
  bool accept(std::string_view what) {
    if (!lexer_.peek().is(what))
      return false;
    lexer_.take();
    return true;
  }
  void expect(std::string_view what) {
    if (!accept(what))
      fail(lexer_.peek().line,
           fmt::format("expected '{}' before '{}'", what, lexer_.peek().text));
  }
  std::string word(std::string_view what) {
    if (lexer_.peek().kind != PtxToken::Word)
      fail(lexer_.peek().line,
           fmt::format("expected {} before '{}'", what, lexer_.peek().text));
    return std::string(lexer_.take().text);
  }
  uint64_t number();
  PtxOperand constant();
  void skipLine();
  void parseTarget();
  void parseLoc();
  bool parseIgnored(const std::string &directive);
  std::vector<PtxVariable> parseVariables(Space space);
  void parseInitializer(PtxVariable &variable);
  void parseFunction(bool isEntry);
  std::vector<PtxVariable> parseParams();
  void parseScope(PtxFunction &function, int scope);
  void parseBranchTargets(PtxFunction &function, const std::string &label);
  PtxInstruction parseInstruction(std::string opcode, int line);
  PtxOperand operand();
  PtxOperand address();

  PtxLexer lexer_;
  PtxModule module_;
  int sourceLine_ = 0;
};

uint64_t Parser::number() {
  PtxToken token = lexer_.take();
  if (token.kind != PtxToken::Number)
    fail(token.line, fmt::format("expected a number before '{}'", token.text));
  std::string text(token.text);
  if (text.back() == 'U')
    text.pop_back();
  int base = 10;
  size_t skip = 0;
  if (text.size() > 1 && text[0] == '0') {
    char mark = text[1];
    base = mark == 'x' || mark == 'X' ? 16 : mark == 'b' || mark == 'B' ? 2 : 8;
    skip = base == 8 ? 1 : 2;
  }
  char *end = nullptr;
  uint64_t value = std::strtoull(text.c_str() + skip, &end, base);
  if (*end)
    fail(token.line, fmt::format("'{}' is not a number", token.text));
  return value;
}

PtxOperand Parser::constant() {
  PtxOperand operand;
  bool minus = accept("-");
  if (!minus)
    accept("+");
  const PtxToken &token = lexer_.peek();
  std::string text(token.text);
  bool isSingle = text.size() == 10 && (text[1] == 'f' || text[1] == 'F');
  bool isDouble = text.size() == 18 && (text[1] == 'd' || text[1] == 'D');
  if (text[0] == '0' && (isSingle || isDouble)) {
    lexer_.take();
    uint64_t bits = std::strtoull(text.c_str() + 2, nullptr, 16);
    operand.kind = PtxOperand::Float;
    operand.isSingle = isSingle;
    // A NaN keeps its bits; those of a binary32 are in the low half.
    operand.bits = bits;
    if (minus)
      operand.bits ^= uint64_t(1) << (isSingle ? 31 : 63);
    return operand;
  }
  if (text.find('.') != std::string::npos &&
      text.find("0x") == std::string::npos) {
    lexer_.take();
    operand.kind = PtxOperand::Float;
    double value = std::strtod(text.c_str(), nullptr);
    operand.bits = std::bit_cast<uint64_t>(minus ? -value : value);
    return operand;
  }
  operand.kind = PtxOperand::Int;
  operand.isNegative = minus;
  operand.bits = number();
  if (minus)
    operand.bits = -operand.bits;
  return operand;
}

void Parser::skipLine() {
  int line = lexer_.peek().line;
  while (lexer_.peek().kind != PtxToken::End && lexer_.peek().line == line)
    lexer_.take();
}

void Parser::parseTarget() {
  do {
    PtxToken token = lexer_.peek();
    std::string name = word("a target");
    if (name.rfind("sm_", 0) != 0) {
      if (name != "debug" && name != "texmode_independent")
        fail(token.line, fmt::format("unknown target '{}'", name));
      continue;
    }
    char *end = nullptr;
    module_.arch = int(std::strtol(name.c_str() + 3, &end, 10));
    module_.archSuffix = *end;
    if (module_.arch < 10 || (*end && (end[1] || (*end != 'a' && *end != 'f'))))
      fail(token.line, fmt::format("unknown target '{}'", name));
  } while (accept(","));
}

void Parser::parseLoc() {
  number();
  sourceLine_ = int(number());
  number();
  while (accept(",")) {
    word("a .loc attribute");
    while (lexer_.peek().kind == PtxToken::Number || lexer_.peek().is("+") ||
           (lexer_.peek().kind == PtxToken::Word &&
            lexer_.peek().text.starts_with("$L__info")))
      lexer_.take();
  }
}

/// Skips directives about debugging, inside and outside of bodies.
bool Parser::parseIgnored(const std::string &directive) {
  if (directive == ".loc") {
    parseLoc();
  } else if (directive == ".file") {
    skipLine();
  } else if (directive == ".pragma") {
    while (!accept(";"))
      lexer_.take();
  } else if (directive == ".section") {
    word("a section's name");
    expect("{");
    for (int depth = 1; depth;) {
      PtxToken token = lexer_.take();
      if (token.kind == PtxToken::End)
        fail(token.line, "the section has no end");
      depth += token.is("{") ? 1 : token.is("}") ? -1 : 0;
    }
  } else {
    return false;
  }
  return true;
}

void Parser::parseInitializer(PtxVariable &variable) {
  int element = variable.type.bytes();
  auto value = [&](auto &self) -> void {
    if (accept("{")) {
      do
        self(self);
      while (accept(","));
      expect("}");
      return;
    }
    uint64_t at = variable.data.size();
    variable.data.resize(at + element);
    if (lexer_.peek().kind == PtxToken::Word) {
      std::string name = word("a variable");
      if (name == "generic") {
        expect("(");
        name = word("a variable");
        expect(")");
      }
      uint64_t offset = accept("+") ? number() : 0;
      if (element != 8)
        fail(variable.line, fmt::format("'{}' holds an address in {} bytes",
                                        variable.name, element));
      std::memcpy(variable.data.data() + at, &offset, 8);
      variable.addresses.emplace_back(at, name);
      return;
    }
    PtxOperand item = constant();
    uint64_t bits = item.bits;
    if (item.kind == PtxOperand::Float && !item.isSingle && element == 4)
      bits = std::bit_cast<uint32_t>(float(std::bit_cast<double>(bits)));
    std::memcpy(variable.data.data() + at, &bits, element);
  };
  value(value);
  if (variable.bytes && variable.data.size() > variable.bytes)
    fail(variable.line,
         fmt::format("'{}' has more values than elements", variable.name));
}

/// After the state space: "[.align N] [.v4] .type name<count> [dims] [= init]
/// {, name}"
std::vector<PtxVariable> Parser::parseVariables(Space space) {
  PtxVariable head;
  head.space = space;
  uint64_t vector = 1;
  while (lexer_.peek().text.starts_with(".")) {
    PtxToken token = lexer_.take();
    std::string_view name = token.text.substr(1);
    if (name == "align") {
      head.align = number();
    } else if (name == "v2" || name == "v4") {
      vector = name == "v2" ? 2 : 4;
    } else if (name == "ptr") { // The space that a pointer parameter points to.
      while (lexer_.peek().is(".global") || lexer_.peek().is(".shared") ||
             lexer_.peek().is(".const") || lexer_.peek().is(".local"))
        lexer_.take();
      if (accept(".align"))
        number();
    } else if (PtxType type = ptxType(name); type.kind != PtxType::None) {
      head.type = type;
    } else {
      fail(token.line,
           fmt::format("unknown directive '{}' of a variable", token.text));
    }
  }
  if (head.type.kind == PtxType::None)
    fail(lexer_.peek().line, "the variable has no type");
  std::vector<PtxVariable> variables;
  do {
    PtxVariable variable = head;
    variable.line = lexer_.peek().line;
    variable.name = word("a variable's name");
    uint64_t element = uint64_t(head.type.bytes()) * vector;
    variable.align = std::max<uint64_t>(head.align, element);
    if (head.align > 1)
      variable.align = head.align;
    variable.bytes = element;
    if (accept("<")) {
      variable.registers = int(number());
      expect(">");
    }
    while (accept("[")) {
      variable.bytes *= lexer_.peek().is("]") ? 0 : number();
      expect("]");
    }
    if (accept("="))
      parseInitializer(variable);
    if (!variable.bytes && !variable.data.empty())
      variable.bytes = variable.data.size();
    variables.push_back(std::move(variable));
  } while (space != Space::Param && accept(","));
  return variables;
}

std::vector<PtxVariable> Parser::parseParams() {
  std::vector<PtxVariable> params;
  if (!accept("(") || accept(")"))
    return params;
  do {
    PtxToken token = lexer_.take();
    if (!token.is(".param"))
      fail(token.line,
           fmt::format("expected '.param' before '{}'", token.text));
    params.push_back(parseVariables(Space::Param)[0]);
  } while (accept(","));
  expect(")");
  return params;
}

void Parser::parseFunction(bool isEntry) {
  PtxFunction function;
  function.isEntry = isEntry;
  function.line = lexer_.peek().line;
  if (!isEntry && lexer_.peek().is("("))
    function.results = parseParams();
  function.name = word("a function's name");
  function.params = parseParams();
  while (lexer_.peek().text.starts_with(".")) {
    PtxToken token = lexer_.take();
    auto three = [&](uint32_t *out) {
      out[0] = uint32_t(number());
      out[1] = accept(",") ? uint32_t(number()) : 1;
      out[2] = accept(",") ? uint32_t(number()) : 1;
    };
    if (token.is(".maxntid"))
      three(function.maxThreads);
    else if (token.is(".reqntid"))
      three(function.requiredThreads);
    else if (token.is(".minnctapersm"))
      function.minBlocksPerSm = int(number());
    else if (token.is(".maxnreg"))
      function.maxRegisters = int(number());
    else if (token.is(".reqnctapercluster"))
      three(function.cluster);
    else if (token.is(".noreturn") || token.is(".explicitcluster"))
      continue;
    else if (!parseIgnored(std::string(token.text)))
      fail(token.line,
           fmt::format("unknown directive '{}' of a function", token.text));
  }
  if (accept("{")) {
    function.hasBody = true;
    function.scopes.emplace_back();
    parseScope(function, 0);
  } else {
    expect(";");
  }
  if (!function.hasBody) // A declaration, whose definition follows; otherwise a
                         // call fails.
    for (const PtxFunction &other : module_.functions)
      if (other.name == function.name)
        return;
  std::erase_if(module_.functions, [&](const PtxFunction &other) {
    return other.name == function.name && !other.hasBody;
  });
  module_.functions.push_back(std::move(function));
}

void Parser::parseBranchTargets(PtxFunction &function,
                                const std::string &label) {
  std::vector<std::string> &targets = function.branchTargets[label];
  do
    targets.push_back(word("a label"));
  while (accept(","));
  expect(";");
}

void Parser::parseScope(PtxFunction &function, int scope) {
  static constexpr std::pair<std::string_view, Space> kSpaces[] = {
      {".reg", Space::Reg},       {".local", Space::Local},
      {".shared", Space::Shared}, {".param", Space::Param},
      {".const", Space::Const},   {".global", Space::Global}};
  std::string lastLabel;
  while (!accept("}")) {
    PtxToken token = lexer_.take();
    if (token.kind == PtxToken::End)
      fail(token.line, fmt::format("'{}' has no end", function.name));
    if (token.is("{")) {
      int inner = int(function.scopes.size());
      function.scopes.emplace_back();
      function.scopes[scope].items.push_back({{}, inner});
      parseScope(function, inner);
      continue;
    }
    if (token.is(";"))
      continue;
    std::string text(token.text);
    if (text.starts_with(".")) {
      bool known = parseIgnored(text);
      if (!known && text == ".branchtargets" && !lastLabel.empty()) {
        parseBranchTargets(function, lastLabel);
        known = true;
      }
      for (auto [name, space] : kSpaces) {
        if (known || text != name)
          continue;
        for (PtxVariable &variable : parseVariables(space))
          function.scopes[scope].variables.push_back(std::move(variable));
        expect(";");
        known = true;
      }
      if (!known)
        fail(token.line, fmt::format("unknown directive '{}'", text));
      continue;
    }
    if (token.kind == PtxToken::Word && accept(":")) {
      PtxInstruction label;
      label.line = token.line;
      label.label = lastLabel = text;
      function.scopes[scope].items.push_back({std::move(label), -1});
      continue;
    }
    PtxInstruction instruction;
    std::string guard;
    bool negated = false;
    if (token.is("@")) {
      negated = accept("!");
      guard = word("a predicate");
      token = lexer_.take();
    }
    if (token.kind != PtxToken::Word)
      fail(token.line,
           fmt::format("expected an instruction before '{}'", token.text));
    instruction = parseInstruction(std::string(token.text), token.line);
    instruction.guard = guard;
    instruction.guardNegated = negated;
    function.scopes[scope].items.push_back({std::move(instruction), -1});
  }
}

PtxOperand Parser::address() {
  PtxOperand operand;
  operand.kind = PtxOperand::Address;
  if (lexer_.peek().kind == PtxToken::Word)
    operand.name = word("an address");
  else
    operand.bits = constant().bits;
  while (!accept("]")) {
    bool minus = lexer_.peek().is("-");
    if (!minus && !lexer_.peek().is("+"))
      fail(lexer_.peek().line,
           fmt::format("'{}' in an address", lexer_.peek().text));
    if (!minus)
      lexer_.take();
    operand.bits += constant().bits;
  }
  return operand;
}

PtxOperand Parser::operand() {
  PtxOperand operand;
  if (accept("["))
    return address();
  if (accept("{")) {
    operand.kind = PtxOperand::Vector;
    do
      operand.parts.push_back(this->operand());
    while (accept(","));
    expect("}");
    return operand;
  }
  if (accept("!")) {
    operand = this->operand();
    operand.negated = true;
    return operand;
  }
  if (lexer_.peek().kind != PtxToken::Word)
    return constant();
  operand.name = word("an operand");
  operand.kind = operand.name == "_" ? PtxOperand::Sink : PtxOperand::Name;
  if (operand.kind == PtxOperand::Name && accept("+"))
    operand.bits = number(); // The address of a variable, and an offset.
  return operand;
}

PtxInstruction Parser::parseInstruction(std::string opcode, int line) {
  PtxInstruction instruction;
  instruction.line = line;
  instruction.sourceLine = sourceLine_;
  size_t at = opcode.find('.');
  instruction.opcode = opcode.substr(0, at);
  while (at != std::string::npos) {
    size_t end = opcode.find('.', at + 1);
    instruction.modifiers.push_back(opcode.substr(at + 1, end - at - 1));
    at = end;
  }
  while (!accept(";")) {
    if (lexer_.peek().kind == PtxToken::End)
      fail(line, fmt::format("'{}' has no end", opcode));
    // A call is (results), name, (arguments): the lists become vectors.
    if (accept("(")) {
      PtxOperand list;
      list.kind = PtxOperand::Vector;
      if (!accept(")")) {
        do
          list.parts.push_back(operand());
        while (accept(","));
        expect(")");
      }
      instruction.operands.push_back(std::move(list));
    } else {
      instruction.operands.push_back(operand());
    }
    if (!accept(",") && !accept("|") && !lexer_.peek().is(";"))
      fail(lexer_.peek().line, fmt::format("'{}' after an operand of {}",
                                           lexer_.peek().text, opcode));
  }
  return instruction;
}

PtxModule Parser::parse() {
  bool isExtern = false;
  while (lexer_.peek().kind != PtxToken::End) {
    PtxToken token = lexer_.take();
    std::string text(token.text);
    if (text == ".version") {
      std::string version(lexer_.take().text);
      module_.versionMajor = std::atoi(version.c_str());
      size_t dot = version.find('.');
      module_.versionMinor =
          dot == std::string::npos ? 0 : std::atoi(version.c_str() + dot + 1);
    } else if (text == ".target") {
      parseTarget();
    } else if (text == ".address_size") {
      if (number() != 64)
        fail(token.line, "only 64-bit addresses are supported");
    } else if (text == ".extern") {
      isExtern = true;
      continue;
    } else if (text == ".visible" || text == ".weak") {
      continue;
    } else if (text == ".entry" || text == ".func") {
      parseFunction(text == ".entry");
    } else if (text == ".global" || text == ".const" || text == ".shared") {
      Space space = text == ".global"  ? Space::Global
                    : text == ".const" ? Space::Const
                                       : Space::Shared;
      for (PtxVariable &variable : parseVariables(space)) {
        variable.isExtern = isExtern;
        module_.variables.push_back(std::move(variable));
      }
      expect(";");
    } else if (!parseIgnored(text)) {
      fail(token.line, fmt::format("unknown directive '{}'", text));
    }
    isExtern = false;
  }
  if (!module_.arch)
    fail(1, "the module has no .target");
  return std::move(module_);
}

} // namespace

moert::StatusOr<PtxModule> parsePtx(std::string_view text) {
  try {
    return Parser(text).parse();
  } catch (const PtxError &error) {
    return moert::Status(
        moert::StatusCode::InvalidFile,
        fmt::format("PTX line {}: {}", error.line, error.message));
  }
}

} // namespace softgpu
