//===- Figures.h - Numbers with three digits for tables ---------*- C++ -*-===//

#ifndef MOE_COMPILER_EXPLAIN_FIGURES_H
#define MOE_COMPILER_EXPLAIN_FIGURES_H

#include <string>

namespace moec {

std::string humanSeconds(double seconds); ///< "1.23 ms"
std::string humanFlops(double flops);     ///< "12.3 G"
/// Formats bytes more briefly than humanBytes(), for tables: "12.3 MiB".
std::string shortBytes(double bytes);
std::string rateText(double rate); ///< "12.3 tokens/s"
/// Returns `part` of `all` as a percentage: "12.3".
std::string shareText(double part, double all);

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_FIGURES_H
