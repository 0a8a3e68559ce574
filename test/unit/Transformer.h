//===- Transformer.h - Tests of imported graphs -----------------*- C++ -*-===//

#ifndef MOE_TEST_UNIT_TRANSFORMER_H
#define MOE_TEST_UNIT_TRANSFORMER_H

#include "dialects/moe/WeightTable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "models/Model.h"
#include "test/support/TempDir.h"
#include "test/support/TinyModel.h"

#include <gmock/gmock.h>

namespace moetest {

/// Imports models and inspects the graph.
struct Transformer : testing::Test {
  moert::Status import(const TinyModel &tiny) {
    auto model =
        moec::GgufModel::open(tiny.build().write(dir.file("tiny.gguf")));
    EXPECT_TRUE(model.isOk()) << model.status().message();
    auto imported =
        moec::importModel(context, *model, {.positions = positions});
    if (!imported)
      return imported.status();
    module = *std::move(imported);
    return {};
  }
  void expectImport(const TinyModel &tiny) {
    moert::Status status = import(tiny);
    ASSERT_TRUE(status.isOk()) << status.message();
  }
  void expectFailure(const TinyModel &tiny, moert::StatusCode code,
                     const std::string &message) {
    moert::Status status = import(tiny);
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_THAT(status.message(), testing::HasSubstr(message));
  }

  /// Returns the op with this label.
  template <typename OpT> OpT find(llvm::StringRef label) {
    OpT found;
    if (module)
      module.get().walk([&](OpT op) {
        if (mlir::moe::labelOf(op) == label)
          found = op;
      });
    EXPECT_TRUE(found) << label.str() << " is missing";
    return found;
  }
  mlir::moe::RopeAttr ropeOf(const TinyModel &tiny) {
    expectImport(tiny);
    return find<mlir::moe::RopeOp>("blk.1.attn_q_rope").getRope();
  }
  std::vector<std::string> notes() {
    std::vector<std::string> result;
    for (auto note : module.get()
                         ->getAttrOfType<mlir::ArrayAttr>(mlir::moe::kNotesAttr)
                         .getAsRange<mlir::StringAttr>())
      result.push_back(note.str());
    return result;
  }
  static std::string tensorOf(mlir::Value weight) {
    return weight ? mlir::moe::weightSymbol(weight).str() : "";
  }

  int64_t positions = moec::kDefaultContext;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  moetest::TempDir dir;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace moetest

#endif // MOE_TEST_UNIT_TRANSFORMER_H
