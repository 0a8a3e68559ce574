//===- TlsFiles.h - A server's certificate and key --------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_TLSFILES_H
#define MOE_RUNTIME_SERVE_HTTP_TLSFILES_H

#include "runtime/base/Status.h"

#include <memory>
#include <openssl/ssl.h>
#include <string>

namespace moert {

/// Reads a chain of certificates and the key of its first one from PEM files,
/// for TLS 1.2 and later. A key with a password is not supported. Fails with
/// InvalidFile or Io, naming the file.
StatusOr<std::shared_ptr<SSL_CTX>>
readTlsFiles(const std::string &certificateFile, const std::string &keyFile);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_TLSFILES_H
