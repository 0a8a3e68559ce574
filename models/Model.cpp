#include "models/Model.h"

#include "models/Builders.h"
#include "models/UnknownParts.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
struct Architecture {
  ArchitectureInfo info;
  Status (*build)(ModelBuilder &);
};

constexpr Architecture kArchitectures[] = {
#define MOE_ARCHITECTURE(name, builder, models) {{name, models}, builder},
#include "models/Architectures.def"
};
} // namespace

std::vector<ArchitectureInfo> supportedArchitectures() {
  std::vector<ArchitectureInfo> result;
  for (const Architecture &architecture : kArchitectures)
    result.push_back(architecture.info);
  return result;
}

bool isSupported(std::string_view architecture) {
  return std::ranges::any_of(kArchitectures, [&](const Architecture &each) {
    return each.info.name == architecture;
  });
}

std::vector<std::string> unknownParts(mlir::MLIRContext &context,
                                      const GgufModel &model) {
  context.loadDialect<mlir::moe::MoeDialect, mlir::func::FuncDialect>();
  AskedParts asked;
  for (const Architecture &architecture : kArchitectures) {
    ModelBuilder builder(context, model, {.positions = 1}, &asked);
    // A builder that gives up has asked for what it needs so far.
    (void)architecture.build(builder).isOk();
  }
  return unknownParts(model, asked);
}

StatusOr<mlir::OwningOpRef<mlir::ModuleOp>>
importModel(mlir::MLIRContext &context, const GgufModel &model,
            ImportOptions options) {
  context.loadDialect<mlir::moe::MoeDialect, mlir::func::FuncDialect>();
  std::string supported;
  for (const Architecture &architecture : kArchitectures) {
    if (architecture.info.name == model.architecture()) {
      ModelBuilder builder(context, model, options);
      MOE_RETURN_IF_ERROR(architecture.build(builder));
      return builder.finish();
    }
    supported += supported.empty() ? "" : ", ";
    supported += architecture.info.name;
  }
  constexpr size_t kShown = 3;
  std::vector<std::string> parts = unknownParts(context, model);
  std::string unknown;
  if (!parts.empty())
    unknown = fmt::format(
        "; not known from any of these: {}{}",
        fmt::join(parts.begin(),
                  parts.begin() + ptrdiff_t(std::min(parts.size(), kShown)),
                  ", "),
        parts.size() > kShown ? ", ..." : "");
  return Status(StatusCode::Unsupported,
                fmt::format("{}: architecture {} is not supported; "
                            "supported: {}{}",
                            model.paths().front(),
                            moert::quoted(model.architecture()), supported,
                            unknown));
}

} // namespace moec
