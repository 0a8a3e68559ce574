// The diagnostics of passes as users read them.
#include "compiler/Driver/Diagnostics.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

using moert::StatusCode;

namespace {

TEST(Diagnostics, MessagesOfSeveralLayersAreCombined) {
  std::vector<std::string> texts;
  for (int layer = 0; layer < 61; ++layer) {
    texts.push_back("blk." + std::to_string(layer) + ".attn: as asked");
    if (layer % 2)
      texts.push_back("blk." + std::to_string(layer) + ".ffn: \"odd\"");
    texts.push_back("2 layers fit");
  }
  EXPECT_EQ(moec::collapseLayers(texts),
            (std::vector<std::string>{"blk.0-60.attn: as asked", "2 layers fit",
                                      "blk.1..59.ffn: \"odd\""}));
}

TEST(Diagnostics, OnlyPlainLayerNumbersAreLayers) {
  for (const char *name :
       {"blk.x.a", "blk.01.a", "blk.-1.a", "blk.99999999999.a", "blk.3",
        "blk..a", "blk.", "", "blk.+1.a"})
    EXPECT_EQ(moec::collapseLayers({name}), std::vector<std::string>{name});
}

/// A log of errors; each has a note if `fix` is not empty.
class DiagnosticLogTest : public ::testing::Test {
protected:
  void fail(const std::string &text, const std::string &fix = "") {
    mlir::InFlightDiagnostic diagnostic =
        mlir::emitError(mlir::UnknownLoc::get(&context_), text);
    if (!fix.empty())
      diagnostic.attachNote() << fix;
  }

  mlir::MLIRContext context_;
  moec::DiagnosticLog log_{&context_};
};

TEST_F(DiagnosticLogTest, ACauseInAllLayersIsReportedOnce) {
  for (int layer = 3; layer < 61; ++layer)
    fail("blk." + std::to_string(layer) + ".ffn: no kernel", "use another");
  fail("and another thing", "or do that");
  moec::Failure failure = log_.failureOf("moe-select-kernels");
  EXPECT_EQ(failure.code, StatusCode::Unsupported);
  EXPECT_EQ(failure.status().message(),
            "blk.3-60.ffn: no kernel (in 58 layers); use another");
}

TEST_F(DiagnosticLogTest, TheFixIsBeforeTheTable) {
  fail("it does not fit\n  cpu0: 2 of 1", "use less");
  EXPECT_EQ(log_.failureOf("moe-place-devices").status().message(),
            "it does not fit; use less\n  cpu0: 2 of 1");
}

TEST_F(DiagnosticLogTest, ErrorsThatNoUserCanFixAreBugsInOneLine) {
  fail("'moe.add' op " + std::string(500, 'x') + "\n%0 = moe.add");
  for (const char *pass : {"moe-place-devices", "plan-allocate"}) {
    moec::Failure failure = log_.failureOf(pass);
    EXPECT_EQ(failure.code, StatusCode::Internal);
    std::string text = failure.status().message();
    EXPECT_EQ(text.find("this is a bug of moec: " + std::string(pass)), 0u);
    EXPECT_NE(text.find("--dump-phases"), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_LT(text.size(), 400u);
  }
}

TEST_F(DiagnosticLogTest, AFailureWithoutAnErrorIsABug) {
  EXPECT_EQ(log_.failureOf("moe-reduce-experts").code, StatusCode::Internal);
}

} // namespace
