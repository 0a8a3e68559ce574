// moe_cuda_device_tests [--driver LIBRARY]: on software GPUs, or on the GPUs of
// this machine's driver (libcuda.so.1).

#include "test/unit/CudaDeviceFixture.h"

#include <cstring>

std::string &moetest::driverLibrary() {
  static std::string library = MOE_SOFTCUDA;
  return library;
}

int main(int argc, char **argv) {
  testing::InitGoogleMock(&argc, argv);
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], "--driver") == 0)
      moetest::driverLibrary() = argv[i + 1];
  return RUN_ALL_TESTS();
}
