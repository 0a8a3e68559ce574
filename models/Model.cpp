#include "models/Model.h"

#include "models/Builders.h"
#include "runtime/base/Text.h"

#include <fmt/format.h>

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
#define MOE_ARCHITECTURE(name, builder, models) {{#name, models}, builder},
#include "models/Architectures.def"
};
} // namespace

std::vector<ArchitectureInfo> supportedArchitectures() {
  std::vector<ArchitectureInfo> result;
  for (const Architecture &architecture : kArchitectures)
    result.push_back(architecture.info);
  return result;
}

StatusOr<mlir::OwningOpRef<mlir::ModuleOp>>
importModel(mlir::MLIRContext &context, const GgufModel &model) {
  context.loadDialect<mlir::moe::MoeDialect, mlir::func::FuncDialect>();
  std::string supported;
  for (const Architecture &architecture : kArchitectures) {
    if (architecture.info.name == model.architecture()) {
      ModelBuilder builder(context, model);
      MOE_RETURN_IF_ERROR(architecture.build(builder));
      return builder.finish();
    }
    supported += supported.empty() ? "" : ", ";
    supported += architecture.info.name;
  }
  return Status(StatusCode::Unsupported,
                fmt::format("{}: architecture {} is not supported; "
                            "supported: {}",
                            model.paths().front(),
                            moert::quoted(model.architecture()), supported));
}

} // namespace moec
