//===- CudaTestFixture.h ----------------------------------------*- C++ -*-===//

#ifndef MOE_TEST_UNIT_CUDATESTFIXTURE_H
#define MOE_TEST_UNIT_CUDATESTFIXTURE_H

#include "test/support/FakeCuda.h"

#include <gtest/gtest.h>

namespace moetest {

/// Starts with a driver without devices, and checks that everything is freed at
/// the end.
class CudaTest : public testing::Test {
protected:
  void SetUp() override { cuda = FakeCuda(); }
  void TearDown() override {
    EXPECT_EQ(cuda.live, 0);
    EXPECT_EQ(cuda.allocatedBytes, 0u);
  }

  FakeCuda &cuda = fakeCuda();
};

} // namespace moetest

#endif // MOE_TEST_UNIT_CUDATESTFIXTURE_H
