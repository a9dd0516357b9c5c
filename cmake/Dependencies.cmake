# Everything that is linked, found once. All are Debian 12 packages (scripts/install-deps.sh).
# CUDA is not here: driver, NVRTC and CUPTI are loaded at run time.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Boost REQUIRED COMPONENTS context)
find_package(OpenSSL REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(Catch2 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(tcmalloc REQUIRED IMPORTED_TARGET libtcmalloc_minimal)
pkg_check_modules(hiredis REQUIRED IMPORTED_TARGET hiredis)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)  # its headers alone are used
