//===- Moe.cpp - Dialect registration and attributes ----------------------===//

#include "dialects/moe/ExpertFrequencies.h"
#include "dialects/moe/KernelCalls.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

#include "dialects/moe/MoeDialect.cpp.inc"
#include "dialects/moe/MoeEnums.cpp.inc"
#include "dialects/moe/MoeOpInterfaces.cpp.inc"
#include "dialects/moe/MoeWeightInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/moe/MoeAttrs.cpp.inc"

FailureOr<Real> moe::parseReal(AsmParser &parser) {
  double value = 0;
  SMLoc place = parser.getCurrentLocation();
  if (parser.parseFloat(value))
    return failure();
  if (!std::isfinite(value))
    return parser.emitError(place, "expected a finite number"), failure();
  return Real(value);
}

FailureOr<SmallVector<Real>> moe::parseReals(AsmParser &parser) {
  SmallVector<Real> values;
  auto parseOne = [&]() -> ParseResult {
    FailureOr<Real> value = parseReal(parser);
    if (failed(value))
      return failure();
    values.push_back(*value);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  return values;
}

void moe::printReals(AsmPrinter &printer, ArrayRef<Real> values) {
  printer << '[';
  llvm::interleaveComma(values, printer, [&](Real value) {
    printer.printFloat(APFloat(double(value)));
  });
  printer << ']';
}

LogicalResult RopeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t dim, Real base, Real factor,
                               int64_t originalContext, Real betaFast,
                               Real betaSlow, bool rounded, Real magnitude,
                               ArrayRef<Real> divisors, bool neox,
                               bool reversed) {
  if (dim <= 0 || dim % 2 != 0)
    return emitError() << "expected an even number of dimensions above zero, "
                          "got "
                       << dim;
  // YaRN divides by log(base), which must not be 0.
  if (!(base > 1))
    return emitError() << "expected base above 1, got " << std::to_string(base);
  if (!(factor > 0))
    return emitError() << "expected factor above 0, got "
                       << std::to_string(factor);
  if (originalContext < 0)
    return emitError() << "expected original_context not negative, got "
                       << originalContext;
  if (!(betaFast > 0 && betaSlow > 0))
    return emitError() << "expected beta_fast and beta_slow above 0, got "
                       << std::to_string(betaFast) << " and "
                       << std::to_string(betaSlow);
  if (!(magnitude > 0))
    return emitError() << "expected magnitude above 0, got "
                       << std::to_string(magnitude);
  if (!divisors.empty() && int64_t(divisors.size()) != dim / 2)
    return emitError() << "expected " << dim / 2 << " divisors, got "
                       << divisors.size();
  for (Real divisor : divisors)
    if (!(divisor > 0))
      return emitError() << "expected divisors above 0, got "
                         << std::to_string(divisor);
  return success();
}

LogicalResult PhaseAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                StringAttr name, int64_t minTokens,
                                int64_t maxTokens, int64_t context,
                                int64_t sequences) {
  if (!moert::phaseKindOf(std::string_view(name.getValue())))
    return emitError() << "expected the name of a phase, got " << name;
  if (sequences < 1)
    return emitError() << "expected at least 1 sequence, got " << sequences;
  if (1 <= minTokens && minTokens <= maxTokens &&
      (maxTokens - 1) / sequences < context)
    return success();
  InFlightDiagnostic error = emitError();
  error << "expected 1 <= min_tokens <= max_tokens <= context, got "
        << minTokens << ", " << maxTokens << ", " << context;
  if (sequences > 1)
    error << " for each of " << sequences << " sequences";
  return error;
}

moert::PhaseKind PhaseAttr::getKind() const {
  return *moert::phaseKindOf(std::string_view(getName().getValue()));
}

LogicalResult
ExpertSliceAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                        int64_t experts, int64_t begin, int64_t count,
                        Real share, ArrayRef<Real> map) {
  if (begin < 0 || count < 1 || experts < count || begin > experts - count)
    return emitError() << "expected experts of " << experts << ", found "
                       << count << " from " << begin << " on";
  if (!(share >= 0 && share <= 1))
    return emitError() << "expected a share from 0 to 1, found "
                       << double(share);
  if (!map.empty() && (int64_t(map.size()) != experts || begin != 0))
    return emitError() << "expected a map of " << experts
                       << " experts, with begin 0";
  for (double number : map)
    if (!(number >= -1 && number < double(count) &&
          number == std::floor(number)))
      return emitError() << "expected -1 or a matrix below " << count
                         << " in the map, found " << number;
  return success();
}

//===----------------------------------------------------------------------===//
// Labels
//===----------------------------------------------------------------------===//

LogicalResult LabelAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                StringAttr part, int64_t layer) {
  if (!part || part.empty())
    return emitError() << "expected the name of a part";
  if (layer < kNoLayer)
    return emitError() << "expected layer not negative, got " << layer;
  return success();
}

std::string LabelAttr::text() const {
  std::string part = getPart().str();
  return layer() ? "blk." + std::to_string(*layer()) + "." + part : part;
}

LabelAttr LabelAttr::of(StringRef suffix) const {
  return get(getContext(),
             StringAttr::get(getContext(), getPart().strref() + "." + suffix),
             getLayer());
}

std::string moe::labelOf(Operation *op) {
  if (auto label = op->getAttrOfType<LabelAttr>(kLabelAttr))
    return label.text();
  return op->getName().getStringRef().str();
}

std::optional<int64_t> moe::layerOf(Operation *op) {
  auto label = op->getAttrOfType<LabelAttr>(kLabelAttr);
  return label ? label.layer() : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Discardable attributes
//===----------------------------------------------------------------------===//

template <typename AttrT> static bool isKind(Attribute value) {
  return isa<AttrT>(value);
}

template <typename AttrT> static bool isListOf(Attribute value) {
  auto list = dyn_cast<ArrayAttr>(value);
  return list && llvm::all_of(list, isKind<AttrT>);
}

static bool isFrequencies(Attribute value) {
  auto numbers = dyn_cast<DenseF32ArrayAttr>(value);
  return numbers &&
         llvm::any_of(numbers.asArrayRef(),
                      [](float frequency) { return frequency > 0; }) &&
         llvm::all_of(numbers.asArrayRef(), [](float frequency) {
           return frequency >= 0 && std::isfinite(frequency);
         });
}

static LogicalResult verifyFrequencies(Operation *op,
                                       DenseF32ArrayAttr frequencies) {
  auto experts = dyn_cast<ExpertsOp>(op);
  if (!experts || experts.getSliceAttr())
    return op->emitError() << kFrequenciesAttr
                           << " is for all experts of a layer";
  int64_t count =
      cast<RankedTensorType>(experts.getGate().getType()).getDimSize(0);
  if (frequencies.size() != count)
    return op->emitError() << "expected " << kFrequenciesAttr << " of " << count
                           << " experts, found " << frequencies.size();
  return success();
}

LogicalResult MoeDialect::verifyOperationAttribute(Operation *op,
                                                   NamedAttribute attribute) {
  struct Known {
    StringRef name;
    bool (*isKind)(Attribute);
    StringRef kind;
  };
  static constexpr Known table[] = {
      {kLabelAttr, isKind<LabelAttr>, "a #moe.label"},
      {kDeviceAttr, isKind<StringAttr>, "a device's name"},
      {kKernelsAttr, isKind<KernelsAttr>, "#moe.kernels"},
      {kReasonAttr, isKind<StringAttr>, "a text"},
      {kRejectedAttr, isListOf<RejectedAttr>, "a list of #moe.rejected"},
      {kPhaseAttr, isKind<PhaseAttr>, "a #moe.phase"},
      {kModelAttr, isKind<DictionaryAttr>, "a dictionary"},
      {kFilesAttr, isKind<ArrayAttr>, "an array"},
      {kTargetAttr, isKind<DictionaryAttr>, "a dictionary"},
      {kNotesAttr, isKind<ArrayAttr>, "an array"},
      {kFollowedRulesAttr, isListOf<StringAttr>, "a list of texts"},
      {kUnusedTensorsAttr, isListOf<StringAttr>, "a list of texts"},
      {kKvRowsAttr, isKind<IntegerAttr>, "an integer"},
      {kFrequenciesAttr, isFrequencies, "numbers from 0 on, not all 0"},
      {kDeferredAttr, isKind<UnitAttr>, "without a value"},
      {kStreamedAttr, isKind<UnitAttr>, "without a value"},
      {kStreamingAttr, isKind<StreamingAttr>, "#moe.streaming"},
      {kOnlyOnAttr, isListOf<StringAttr>, "a list of texts"},
      {kReasonOnAttr, isKind<DictionaryAttr>, "a dictionary"},
      {kPinnedAttr, isKind<UnitAttr>, "without a value"},
      {kPredictedAttr, isKind<DictionaryAttr>, "a dictionary"},
  };
  for (const Known &known : table) {
    if (attribute.getName() != known.name)
      continue;
    if (!known.isKind(attribute.getValue()))
      return op->emitError() << "expected " << known.name << " to be "
                             << known.kind << ", got " << attribute.getValue();
    if (attribute.getName() == kFrequenciesAttr)
      return verifyFrequencies(op,
                               cast<DenseF32ArrayAttr>(attribute.getValue()));
    // Whether kernels fit the op's instructions is checked by verifyKernels().
    if (attribute.getName() == kKernelsAttr && !isa<LowerableOpInterface>(op))
      return op->emitError("lowers to no instruction");
    return success();
  }
  return op->emitError() << attribute.getName()
                         << " is not an attribute of the dialect";
}

void MoeDialect::initialize() {
  registerTypes();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/moe/MoeAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/moe/MoeOps.cpp.inc"
      >();
}
