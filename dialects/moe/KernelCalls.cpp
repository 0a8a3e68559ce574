//===- KernelCalls.cpp - #moe.kernels and what it says of an op -----------===//

#include "dialects/moe/KernelCalls.h"

#include "dialects/moe/InstructionBuilders.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace mlir::moe;
using moek::GemmInfo;

static std::string_view view(StringAttr name) {
  return {name.getValue().data(), name.getValue().size()};
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

LogicalResult
KernelCallAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                       StringAttr driver, ArrayRef<StringAttr> gemms) {
  if (!driver || !moek::findKernel(view(driver)))
    return emitError() << "expected the name of a kernel, got " << driver;
  const GemmInfo *first = nullptr;
  for (StringAttr name : gemms) {
    const GemmInfo *gemm = name ? moek::findGemm(view(name)) : nullptr;
    if (!gemm)
      return emitError() << "expected the name of a gemm, got " << name;
    first = first ? first : gemm;
    if (!shareActivation(*gemm, *first))
      return emitError() << "gemms of " << driver
                         << " read different encodings: " << name << " and "
                         << gemms.front();
  }
  return success();
}

const moek::KernelInfo &KernelCallAttr::driver() const {
  return *moek::findKernel(view(getDriver()));
}

SmallVector<const GemmInfo *, 2> KernelCallAttr::gemms() const {
  return llvm::map_to_vector<2>(
      getGemms(), [](StringAttr name) { return moek::findGemm(view(name)); });
}

/// Parses `driver` or `driver(gemm, gemm)`.
static FailureOr<KernelCallAttr> parseCall(AsmParser &parser) {
  SMLoc place = parser.getCurrentLocation();
  MLIRContext *context = parser.getContext();
  StringRef name;
  if (parser.parseKeyword(&name))
    return failure();
  auto driver = StringAttr::get(context, name);
  SmallVector<StringAttr> gemms;
  auto parseGemm = [&]() -> ParseResult {
    if (parser.parseKeyword(&name))
      return failure();
    gemms.push_back(StringAttr::get(context, name));
    return success();
  };
  if (succeeded(parser.parseOptionalLParen()) &&
      (parser.parseCommaSeparatedList(parseGemm) || parser.parseRParen()))
    return failure();
  auto emitError = [&] { return parser.emitError(place); };
  auto call = KernelCallAttr::getChecked(
      llvm::function_ref<InFlightDiagnostic()>(emitError), context, driver,
      ArrayRef<StringAttr>(gemms));
  if (!call)
    return failure();
  return call;
}

static void printCall(AsmPrinter &printer, KernelCallAttr call) {
  printer << call.getDriver().getValue();
  if (call.getGemms().empty())
    return;
  printer << '(';
  llvm::interleaveComma(call.getGemms(), printer,
                        [&](StringAttr name) { printer << name.getValue(); });
  printer << ')';
}

Attribute KernelCallAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  auto call = parseCall(parser);
  if (failed(call) || parser.parseGreater())
    return {};
  return *call;
}

void KernelCallAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printCall(printer, *this);
  printer << '>';
}

Attribute KernelsAttr::parse(AsmParser &parser, Type) {
  SmallVector<KernelCallAttr> calls;
  auto parseOne = [&]() -> ParseResult {
    auto call = parseCall(parser);
    if (failed(call))
      return failure();
    calls.push_back(*call);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseOne))
    return {};
  return get(parser.getContext(), calls);
}

void KernelsAttr::print(AsmPrinter &printer) const {
  printer << '<';
  llvm::interleaveComma(getCalls(), printer,
                        [&](KernelCallAttr call) { printCall(printer, call); });
  printer << '>';
}

//===----------------------------------------------------------------------===//
// The instructions of an op
//===----------------------------------------------------------------------===//

moek::Layout SelectedInstruction::layoutOf(Value weight) const {
  for (auto [own, gemm] : llvm::zip_equal(instruction.gemmWeights(), gemms))
    if (own == weight)
      return gemm->layout;
  return moek::Layout::Gguf;
}

bool moe::shareActivation(const GemmInfo &a, const GemmInfo &b) {
  return moek::reads(a.activation, b.activation) ||
         moek::reads(b.activation, a.activation);
}

std::vector<Instruction> moe::withQuantize(const Instructions &instructions,
                                           ArrayRef<const GemmInfo *> gemms) {
  std::vector<Instruction> all;
  SmallVector<Operand, 2> encoded;
  for (const Instruction &instruction : instructions) {
    auto own = gemms.take_front(instruction.gemmWeights().size());
    gemms = gemms.drop_front(own.size());
    const Operand *activation = instruction.activation();
    bool readsA8 = activation && llvm::any_of(own, [](const GemmInfo *gemm) {
                     return moek::isA8(gemm->activation);
                   });
    if (readsA8 && !llvm::is_contained(encoded, *activation)) {
      all.push_back(inst::Quantize{.x = activation->as(Operand::Form::Plain),
                                   .out = Operand::quantized(*activation)});
      encoded.push_back(*activation);
    }
    all.push_back(instruction);
  }
  return all;
}

FailureOr<std::vector<SelectedInstruction>>
moe::selectedInstructions(Operation *op, const Instructions &instructions) {
  auto kernels = op->getAttrOfType<KernelsAttr>(kKernelsAttr);
  if (!kernels)
    return op->emitError() << "has no " << kKernelsAttr
                           << "; run moe-select-kernels first";

  SmallVector<const GemmInfo *> gemms;
  for (KernelCallAttr call : kernels.getCalls())
    llvm::append_range(gemms, call.gemms());
  size_t weights = 0;
  for (const Instruction &instruction : instructions)
    weights += instruction.gemmWeights().size();
  if (gemms.size() != weights)
    return op->emitError() << kKernelsAttr << " has " << gemms.size()
                           << " gemms for " << weights << " weights";
  std::vector<Instruction> all = withQuantize(instructions, gemms);
  if (kernels.getCalls().size() != all.size())
    return op->emitError() << kKernelsAttr << " has "
                           << kernels.getCalls().size() << " calls for "
                           << all.size() << " instructions";

  std::vector<SelectedInstruction> selected;
  for (auto [instruction, call] : llvm::zip_equal(all, kernels.getCalls())) {
    if (call.driver().op != instruction.op ||
        call.getGemms().size() != instruction.gemmWeights().size())
      return op->emitError() << kKernelsAttr << " names " << call.getDriver()
                             << " for another instruction";
    selected.push_back({instruction, &call.driver(), call.gemms()});
  }
  return selected;
}

LogicalResult moe::verifyKernels(Operation *op) {
  if (!op->hasAttrOfType<KernelsAttr>(kKernelsAttr))
    return success();
  return selectedInstructions(
      op, cast<LowerableOpInterface>(op).getInstructions({}));
}
