//===- MoeTypes.cpp - Quantised element types -----------------------------===//

#include "dialects/moe/Moe.h"
#include "kernels/KvCache.h"
#include "kernels/Registry.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace mlir::moe;

#include "dialects/moe/MoeTypeInterfaces.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/moe/MoeTypes.cpp.inc"

void MoeDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/moe/MoeTypes.cpp.inc"
      >();
}

LogicalResult KvType::verify(function_ref<InFlightDiagnostic()> emitError,
                             int64_t width, moek::KvType) {
  if (width <= 0)
    return emitError() << "expected width above zero, got " << width;
  return success();
}

Type KvType::parse(AsmParser &parser) {
  int64_t width;
  moek::KvType element = moek::KvType::BF16;
  SMLoc place = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseInteger(width))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    StringRef name;
    SMLoc word = parser.getCurrentLocation();
    if (parser.parseKeyword(&name))
      return {};
    auto known = moek::kvTypeFromName({name.data(), name.size()});
    if (!known) {
      parser.emitError(word) << "'" << name << "' is not a type of a KV cache";
      return {};
    }
    element = *known;
  }
  if (parser.parseGreater())
    return {};
  auto emitError = [&] { return parser.emitError(place); };
  return getChecked(llvm::function_ref<InFlightDiagnostic()>(emitError),
                    parser.getContext(), width, element);
}

void KvType::print(AsmPrinter &printer) const {
  printer << '<' << getWidth();
  if (getElement() != moek::KvType::BF16)
    printer << ", " << moek::kvTypeName(getElement());
  printer << '>';
}

int64_t KvType::getRowBytes() const {
  return moek::kvRowBytes(getElement(), getWidth());
}

std::optional<moek::Format> moe::getFormat(Type elementType) {
  if (auto quant = dyn_cast<QuantTypeInterface>(elementType))
    return quant.getFormat();
  if (elementType.isF32())
    return moek::Format::F32;
  if (elementType.isF16())
    return moek::Format::F16;
  if (elementType.isBF16())
    return moek::Format::BF16;
  if (elementType.isSignlessInteger(32))
    return moek::Format::I32;
  return std::nullopt;
}

namespace {
/// Returns the type of the dialect that stands for `format`, or null.
template <typename... Ts>
Type findQuantType(MLIRContext *context, moek::Format format) {
  Type found;
  (
      [&] {
        if constexpr (std::is_base_of_v<QuantTypeInterface::Trait<Ts>, Ts>)
          if (Type type = Ts::get(context); getFormat(type) == format)
            found = type;
      }(),
      ...);
  return found;
}
} // namespace

Type moe::getElementType(MLIRContext *context, moek::Format format) {
  Builder builder(context);
  for (Type type : {Type(builder.getF32Type()), Type(builder.getF16Type()),
                    Type(builder.getBF16Type()), Type(builder.getI32Type())})
    if (getFormat(type) == format)
      return type;
  return findQuantType<
#define GET_TYPEDEF_LIST
#include "dialects/moe/MoeTypes.cpp.inc"
      >(context, format);
}

int64_t moe::getTensorBytes(RankedTensorType type) {
  std::optional<moek::Format> format = getFormat(type.getElementType());
  assert(format && type.hasStaticShape() && "not the type of a weight");
  moek::FormatInfo info = moek::formatInfo(*format);
  return type.getNumElements() / info.blockElements * info.blockBytes;
}
