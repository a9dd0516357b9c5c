// A body as gzip: what browsers and Prometheus take.
#pragma once

#include <string>
#include <string_view>

namespace warpsmith::http {

// Quick rather than small: some 100 MB/s. "": it could not be done.
std::string Gzip(std::string_view body);

// Whether an Accept-Encoding asks for it.
bool TakesGzip(std::string_view accepted);

}  // namespace warpsmith::http
