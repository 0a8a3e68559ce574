#include "runtime/serve/http/TlsFiles.h"

#include "runtime/base/InputFile.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <string_view>

namespace moert {

namespace {
Status tlsError(const std::string &path, std::string_view what) {
  unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char *reason = code ? ERR_reason_error_string(code) : nullptr;
  return Status(StatusCode::InvalidFile,
                fmt::format("{}: {}{}{}", path, what, reason ? ": " : "",
                            reason ? reason : ""));
}

/// Replaces OpenSSL's question on the terminal.
int noPassword(char *, int, int, void *) { return 0; }

/// Chooses HTTP/1.1 among the protocols that a client offers.
int chooseProtocol(SSL *, const unsigned char **out, unsigned char *outBytes,
                   const unsigned char *in, unsigned int inBytes, void *) {
  static constexpr std::string_view kProtocol = "http/1.1";
  for (unsigned at = 0; at < inBytes; at += 1 + in[at]) {
    std::string_view offered(reinterpret_cast<const char *>(in + at + 1),
                             in[at]);
    if (offered == kProtocol) {
      *out = in + at + 1;
      *outBytes = in[at];
      return SSL_TLSEXT_ERR_OK;
    }
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}
} // namespace

StatusOr<std::shared_ptr<SSL_CTX>>
readTlsFiles(const std::string &certificateFile, const std::string &keyFile) {
  for (const std::string &path : {certificateFile, keyFile}) {
    MOE_RETURN_IF_ERROR(InputFile::open(path).status());
  }
  ERR_clear_error();
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()),
                                   SSL_CTX_free);
  if (!context)
    return tlsError(certificateFile, "cannot prepare TLS");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_COMPRESSION |
                                         SSL_OP_NO_RENEGOTIATION |
                                         SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_default_passwd_cb(context.get(), noPassword);
  SSL_CTX_set_alpn_select_cb(context.get(), chooseProtocol, nullptr);
  if (SSL_CTX_use_certificate_chain_file(context.get(),
                                         certificateFile.c_str()) != 1)
    return tlsError(certificateFile, "no certificate in PEM form");
  if (SSL_CTX_use_PrivateKey_file(context.get(), keyFile.c_str(),
                                  SSL_FILETYPE_PEM) != 1)
    return tlsError(keyFile,
                    fmt::format("no private key in PEM form, without a "
                                "password, of the certificate in {}",
                                certificateFile));
  if (SSL_CTX_check_private_key(context.get()) != 1)
    return tlsError(keyFile, fmt::format("not the key of the certificate in {}",
                                         certificateFile));
  return context;
}

} // namespace moert
