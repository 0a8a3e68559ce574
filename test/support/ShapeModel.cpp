// Writes a file with the tensors and keys of DeepSeek-V3 and holes for weights:
// hundreds of gigabytes that take no disk space, for tests of what moec reports
// about a real model.
#include "test/support/SampleModel.h"

#include <cstdio>
#include <cstdlib>

int main(int argc, char **argv) {
  int layers = argc == 3 ? std::atoi(argv[2]) : 61;
  if (argc < 2 || argc > 3 || *argv[1] == '-' || layers < 1) {
    std::fprintf(stderr, "usage: %s OUT.gguf [LAYERS]\n", argv[0]);
    return 2;
  }
  moetest::deepseekV3Model(unsigned(layers)).write(argv[1]);
  return 0;
}
