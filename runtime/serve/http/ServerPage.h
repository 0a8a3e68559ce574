//===- ServerPage.h - The web page that is part of the program --*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_SERVERPAGE_H
#define MOE_RUNTIME_SERVE_HTTP_SERVERPAGE_H

#include "runtime/serve/http/StaticFiles.h"

#include <span>

namespace moert {

/// The files of runtime/serve/page, for HttpSettings::files.
extern const std::span<const StaticFile> serverPage;

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_SERVERPAGE_H
