//===- CliFwd.h - CLI11's classes without their definitions -----*- C++ -*-===//
//
// CLI11 is a library of headers: a file that includes it compiles the parser
// again. Commands use only functions of Options.h and Cli.h, and include this.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TOOLS_COMMON_CLIFWD_H
#define MOE_TOOLS_COMMON_CLIFWD_H

namespace CLI {
class App;
class Option;
} // namespace CLI

#endif // MOE_TOOLS_COMMON_CLIFWD_H
