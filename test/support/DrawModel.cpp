// Writes the model that a recipe describes: the small random models of tests,
// whose bytes are the same on every machine.
#include "test/support/ModelRecipe.h"

#include <cstdio>

int main(int argc, char **argv) {
  if (argc != 3 || *argv[2] == '-') {
    std::fprintf(stderr, "usage: %s RECIPE OUT.gguf\n", argv[0]);
    return 2;
  }
  auto model = moetest::modelOfRecipe(argv[1]);
  if (!model) {
    std::fprintf(stderr, "%s\n", model.status().message().c_str());
    return exitCode(model.status().code());
  }
  model->write(argv[2]);
  return 0;
}
