//===- moert.cpp - The runtime's command line -----------------------------===//

#include "tools/moert/Commands.h"

int main(int argc, char **argv) {
  moetool::Tool tool("moert",
                     "Runs plans that moec compiled: text, logits, speed.");
  moert::addRunCommand(tool);
  moert::addLogitsCommand(tool);
  moert::addTokenizeCommand(tool);
  moert::addPerplexityCommand(tool);
  moert::addBenchCommand(tool);
  moert::addInfoCommand(tool);
  return tool.main(argc, argv);
}
