// Less memory for a connection by TLS: OpenSSL gives back what it reads and writes with while
// nothing is on its way, 34 KiB of each of thousands of connections that speak every few seconds.
//
// gRPC makes its contexts by itself and has no setting for that. Its OpenSSL is the system's, so
// what a program defines under the name of one of its functions is what gRPC calls.
#include <dlfcn.h>
#include <openssl/ssl.h>

extern "C" __attribute__((visibility("default"))) SSL_CTX* SSL_CTX_new(const SSL_METHOD* method) {
  using Make = SSL_CTX* (*)(const SSL_METHOD*);
  static const auto make = reinterpret_cast<Make>(dlsym(RTLD_NEXT, "SSL_CTX_new"));
  SSL_CTX* const context = make == nullptr ? nullptr : make(method);
  if (context != nullptr) SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  return context;
}
