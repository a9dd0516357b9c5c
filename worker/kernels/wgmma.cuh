// Products of a group of four warps: 64 x N elements of the result in registers, both operands in shared
// memory, 32 bytes of K at once (kProductBytes). Element (row, column) of the 64 x N result is value 4 (column / 8) + 2
// (row % 16 / 8) + column % 2 of thread 32 (row / 16) + 4 (row % 8) + column % 8 / 2: places(), below.
#pragma once

#include <warpsmith/hopper.cuh>

namespace ws::hopper {

struct Bf16 { static constexpr int kBytes = 2; };
struct Fp16 { static constexpr int kBytes = 2; };
struct E4m3 { static constexpr int kBytes = 1; };

// ---- where operands lie

// Operands lie in shared memory in rows of 128 bytes, whose 16-byte pieces the copy engine has swapped:
// piece p of row r is at p ^ (r % 8). Tiles begin at multiples of 1,024 bytes.
constexpr int kRowBytes = 128;
constexpr int kProductBytes = 32;
constexpr int kPatternBytes = 8 * kRowBytes;

WS_DEVICE constexpr int swizzled(int row, int byte) {
  return row * kRowBytes + (((byte >> 4) ^ (row & 7)) << 4) + (byte & 15);
}

// The word by which wgmma finds an operand. Rows along K (`inner_k`): a row is 128 bytes of K, eight rows a
// pattern, and `stride` the bytes from one pattern to the next. Rows along M or N: a row is 128 bytes of M
// or N, eight of K a pattern; `stride` likewise, `leading` the bytes from one 128 bytes of M or N to the
// next.
WS_DEVICE unsigned long long operand(const void* at, int stride, int leading) {
  const auto field = [](unsigned bytes) { return static_cast<unsigned long long>((bytes & 0x3ffff) >> 4); };
  return field(shared_address(at)) | field(leading) << 16 | field(stride) << 32 | 1ull << 62;
}

// Likewise of rows of 64 bytes of K, of which a product's are 32 or the other 32, eight rows a pattern.
WS_DEVICE unsigned long long operand_of_halves(const void* at) {
  const auto field = [](unsigned bytes) { return static_cast<unsigned long long>((bytes & 0x3ffff) >> 4); };
  return field(shared_address(at)) | field(16) << 16 | field(kPatternBytes / 2) << 32 | 2ull << 62;
}

// Likewise where nothing is swapped: eight rows of 16 bytes (eight of K) lie behind each other, the next eight rows behind them, and
// the other eight of K `apart` bytes on. It may begin at any row.
WS_DEVICE unsigned long long operand_of_eights(const void* at, int apart) {
  const auto field = [](unsigned bytes) { return static_cast<unsigned long long>((bytes & 0x3ffff) >> 4); };
  return field(shared_address(at)) | field(apart) << 16 | field(kRowBytes) << 32;
}

// ---- instructions

// Registers that were written belong to wgmma from here on.
#ifndef WS_HOST
WS_DEVICE void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
WS_DEVICE void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most `Left` groups of products are under way.
template <int Left>
WS_DEVICE void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
}
// Up to here a register that products were given is theirs, though nobody reads it again: or the compiler would leave
// something else there before they are done.
WS_DEVICE void products_had(unsigned& a) { asm volatile("" : "+r"(a)::"memory"); }
// The values of D as operands: each list is the one before and what is behind it.
#define WS_VALUES_8 \
  "%0, %1, %2, %3"
#define WS_OPERANDS_8 \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define WS_VALUES_16 \
  WS_VALUES_8 ", " \
  "%4, %5, %6, %7"
#define WS_OPERANDS_16 \
  WS_OPERANDS_8, \
  "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define WS_VALUES_32 \
  WS_VALUES_16 ", " \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define WS_OPERANDS_32 \
  WS_OPERANDS_16, \
  "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define WS_VALUES_64 \
  WS_VALUES_32 ", " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WS_OPERANDS_64 \
  WS_OPERANDS_32, \
  "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
  "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define WS_VALUES_80 \
  WS_VALUES_64 ", " \
  "%32, %33, %34, %35, %36, %37, %38, %39"
#define WS_OPERANDS_80 \
  WS_OPERANDS_64, \
  "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), \
  "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define WS_VALUES_96 \
  WS_VALUES_80 ", " \
  "%40, %41, %42, %43, %44, %45, %46, %47"
#define WS_OPERANDS_96 \
  WS_OPERANDS_80, \
  "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), \
  "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define WS_VALUES_112 \
  WS_VALUES_96 ", " \
  "%48, %49, %50, %51, %52, %53, %54, %55"
#define WS_OPERANDS_112 \
  WS_OPERANDS_96, \
  "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), \
  "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define WS_VALUES_128 \
  WS_VALUES_112 ", " \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define WS_OPERANDS_128 \
  WS_OPERANDS_112, \
  "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), \
  "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define WS_VALUES_144 \
  WS_VALUES_128 ", " \
  "%64, %65, %66, %67, %68, %69, %70, %71"
#define WS_OPERANDS_144 \
  WS_OPERANDS_128, \
  "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), \
  "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define WS_VALUES_160 \
  WS_VALUES_144 ", " \
  "%72, %73, %74, %75, %76, %77, %78, %79"
#define WS_OPERANDS_160 \
  WS_OPERANDS_144, \
  "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), \
  "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define WS_VALUES_176 \
  WS_VALUES_160 ", " \
  "%80, %81, %82, %83, %84, %85, %86, %87"
#define WS_OPERANDS_176 \
  WS_OPERANDS_160, \
  "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), \
  "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define WS_VALUES_192 \
  WS_VALUES_176 ", " \
  "%88, %89, %90, %91, %92, %93, %94, %95"
#define WS_OPERANDS_192 \
  WS_OPERANDS_176, \
  "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), \
  "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define WS_VALUES_208 \
  WS_VALUES_192 ", " \
  "%96, %97, %98, %99, %100, %101, %102, %103"
#define WS_OPERANDS_208 \
  WS_OPERANDS_192, \
  "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), \
  "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define WS_VALUES_224 \
  WS_VALUES_208 ", " \
  "%104, %105, %106, %107, %108, %109, %110, %111"
#define WS_OPERANDS_224 \
  WS_OPERANDS_208, \
  "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), \
  "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define WS_VALUES_240 \
  WS_VALUES_224 ", " \
  "%112, %113, %114, %115, %116, %117, %118, %119"
#define WS_OPERANDS_240 \
  WS_OPERANDS_224, \
  "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), \
  "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define WS_VALUES_256 \
  WS_VALUES_240 ", " \
  "%120, %121, %122, %123, %124, %125, %126, %127"
#define WS_OPERANDS_256 \
  WS_OPERANDS_240, \
  "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), \
  "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

// One instruction: D = A B + (add ? D : 0). TransA, TransB: rows along M, along N.
template <class Type, int N, int TransA, int TransB> struct Product;

#define WS_PRODUCT_16(N, R0, R1, R2, R3, R4, Type, name)                                               \
  template <int TransA, int TransB>                                                                    \
  struct Product<Type, N, TransA, TransB> {                                                            \
    static WS_DEVICE void run(float (&d)[N / 2], unsigned long long a, unsigned long long b, int add) { \
      asm volatile(                                                                                    \
          "{\n.reg .pred p;\nsetp.ne.b32 p, %" R2 ", 0;\n"                                            \
          "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." name "." name " {" WS_VALUES_##N "}, "     \
          "%" R0 ", %" R1 ", p, 1, 1, %" R3 ", %" R4 ";\n}"                                            \
          : WS_OPERANDS_##N                                                                            \
          : "l"(a), "l"(b), "r"(add), "n"(TransA), "n"(TransB));                                       \
    }                                                                                                  \
  };
#define WS_PRODUCTS_16(N, R0, R1, R2, R3, R4)               \
  WS_PRODUCT_16(N, R0, R1, R2, R3, R4, Bf16, "bf16")        \
  WS_PRODUCT_16(N, R0, R1, R2, R3, R4, Fp16, "f16")
WS_PRODUCTS_16(8, "4", "5", "6", "7", "8")
WS_PRODUCTS_16(16, "8", "9", "10", "11", "12")
WS_PRODUCTS_16(32, "16", "17", "18", "19", "20")
WS_PRODUCTS_16(64, "32", "33", "34", "35", "36")
WS_PRODUCTS_16(80, "40", "41", "42", "43", "44")
WS_PRODUCTS_16(96, "48", "49", "50", "51", "52")
WS_PRODUCTS_16(112, "56", "57", "58", "59", "60")
WS_PRODUCTS_16(128, "64", "65", "66", "67", "68")
WS_PRODUCTS_16(144, "72", "73", "74", "75", "76")
WS_PRODUCTS_16(160, "80", "81", "82", "83", "84")
WS_PRODUCTS_16(176, "88", "89", "90", "91", "92")
WS_PRODUCTS_16(192, "96", "97", "98", "99", "100")
WS_PRODUCTS_16(208, "104", "105", "106", "107", "108")
WS_PRODUCTS_16(224, "112", "113", "114", "115", "116")
WS_PRODUCTS_16(240, "120", "121", "122", "123", "124")
WS_PRODUCTS_16(256, "128", "129", "130", "131", "132")

#undef WS_PRODUCTS_16
#undef WS_PRODUCT_16

// Of eight bits rows lie along K.
#define WS_PRODUCT_8(N, R0, R1, R2)                                                                    \
  template <>                                                                                          \
  struct Product<E4m3, N, 0, 0> {                                                                      \
    static WS_DEVICE void run(float (&d)[N / 2], unsigned long long a, unsigned long long b, int add) { \
      asm volatile(                                                                                    \
          "{\n.reg .pred p;\nsetp.ne.b32 p, %" R2 ", 0;\n"                                            \
          "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" WS_VALUES_##N "}, "             \
          "%" R0 ", %" R1 ", p, 1, 1;\n}"                                                              \
          : WS_OPERANDS_##N                                                                            \
          : "l"(a), "l"(b), "r"(add));                                                                 \
    }                                                                                                  \
  };
WS_PRODUCT_8(16, "8", "9", "10")
WS_PRODUCT_8(32, "16", "17", "18")
WS_PRODUCT_8(64, "32", "33", "34")
WS_PRODUCT_8(80, "40", "41", "42")
WS_PRODUCT_8(96, "48", "49", "50")
WS_PRODUCT_8(112, "56", "57", "58")
WS_PRODUCT_8(128, "64", "65", "66")
WS_PRODUCT_8(144, "72", "73", "74")
WS_PRODUCT_8(160, "80", "81", "82")
WS_PRODUCT_8(176, "88", "89", "90")
WS_PRODUCT_8(192, "96", "97", "98")
WS_PRODUCT_8(208, "104", "105", "106")
WS_PRODUCT_8(224, "112", "113", "114")
WS_PRODUCT_8(240, "120", "121", "122")
WS_PRODUCT_8(256, "128", "129", "130")

#undef WS_PRODUCT_8

// The same with A in registers, two elements in each: of rows r and r + 8 (r: place(thread, 0).row) those at 2 (thread % 4)
// and 1 more of 16 of K, then those 8 more.
template <class Type, int N, int TransB> struct ProductOfRegisters;

#define WS_PRODUCT_16(N, A0, A1, A2, A3, R0, R1, R2, Type, name)                                         \
  template <int TransB>                                                                                  \
  struct ProductOfRegisters<Type, N, TransB> {                                                           \
    static WS_DEVICE void run(float (&d)[N / 2], const unsigned (&a)[4], unsigned long long b, int add) { \
      asm volatile(                                                                                      \
          "{\n.reg .pred p;\nsetp.ne.b32 p, %" R1 ", 0;\n"                                              \
          "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." name "." name " {" WS_VALUES_##N "}, "       \
          "{%" A0 ", %" A1 ", %" A2 ", %" A3 "}, %" R0 ", p, 1, 1, %" R2 ";\n}"                          \
          : WS_OPERANDS_##N                                                                              \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(TransB));                  \
    }                                                                                                    \
  };
#define WS_PRODUCTS_16(N, A0, A1, A2, A3, R0, R1, R2)         \
  WS_PRODUCT_16(N, A0, A1, A2, A3, R0, R1, R2, Bf16, "bf16")  \
  WS_PRODUCT_16(N, A0, A1, A2, A3, R0, R1, R2, Fp16, "f16")
WS_PRODUCTS_16(16, "8", "9", "10", "11", "12", "13", "14")
WS_PRODUCTS_16(32, "16", "17", "18", "19", "20", "21", "22")
WS_PRODUCTS_16(64, "32", "33", "34", "35", "36", "37", "38")
WS_PRODUCTS_16(128, "64", "65", "66", "67", "68", "69", "70")
WS_PRODUCTS_16(192, "96", "97", "98", "99", "100", "101", "102")
WS_PRODUCTS_16(256, "128", "129", "130", "131", "132", "133", "134")

#undef WS_PRODUCTS_16
#undef WS_PRODUCT_16
#endif

// ---- where results lie

struct Place {
  int row, column;
};
// Of value v of thread t of the group.
WS_DEVICE constexpr Place place(int t, int v) {
  return {t / 32 * 16 + t % 32 / 4 + v % 4 / 2 * 8, v / 4 * 8 + t % 4 * 2 + v % 2};
}

// ---- on the host device: of what is not swapped, by its definition

#ifdef WS_HOST
WS_DEVICE void products_begin() { group_sync(1 + threadIdx.x / 128, 128); }
WS_DEVICE void products_commit() {}
template <int Left> WS_DEVICE void products_wait() { group_sync(1 + threadIdx.x / 128, 128); }
WS_DEVICE void products_had(unsigned&) {}

template <class Type, int N, int TransA, int TransB> struct Product {
  template <class T>
  static WS_DEVICE float element(unsigned long long operand, int row, int k) {
    const auto field = [&](int bit) { return static_cast<unsigned>(operand >> bit & 0x3fff) << 4; };
    const unsigned at = (field(0) + k / 8 * field(16) + row / 8 * field(32) + row % 8 * 16 + k % 8 * 2) & 0x3ffff;
    return to_float(*reinterpret_cast<const T*>(ws::shared() + at - kHostShared));
  }
  static WS_DEVICE void run(float (&d)[N / 2], unsigned long long a, unsigned long long b, int add) {
    static_assert(Type::kBytes == 2 && TransA == 0 && TransB == 0, "of 16 bits, along K");
    using T = typename Either<__is_same(Type, Fp16), f16, bf16>::Type;
    for (int v = 0; v < N / 2; ++v) {
      const Place at = place(threadIdx.x % 128, v);
      float sum = add ? d[v] : 0;
      for (int k = 0; k < 16; ++k) sum += element<T>(a, at.row, k) * element<T>(b, at.column, k);
      d[v] = sum;
    }
  }
};
template <class Type, int N, int TransB> struct ProductOfRegisters;
#endif

}  // namespace ws::hopper
