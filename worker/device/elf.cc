#include "worker/device/elf.h"

#include <elf.h>

#include <cstring>
#include <optional>

#include "absl/status/status.h"

namespace warpsmith::device {
namespace {

// CUDA's ABI keeps __device__ variables in these; constants are in .nv.constant<N>.
bool IsCudaGlobal(const std::string& section) { return section.rfind(".nv.global", 0) == 0; }

// The host device's own context (worker/kernels/host.cuh), and what it takes for __constant__.
constexpr char kHostContext[] = "_ZN2ws4hostL7contextE";
constexpr char kHostConstants[] = ".ws_constant";

template <class T>
std::optional<T> At(const std::string& image, uint64_t offset) {
  if (offset > image.size() || image.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, image.data() + offset, sizeof(T));
  return value;
}

// A string of a string table that begins at `table` and has `size` bytes.
std::string StringAt(const std::string& image, uint64_t table, uint64_t size, uint64_t index) {
  if (index >= size || table > image.size() || image.size() - table < size) return "";
  const char* begin = image.data() + table + index;
  return std::string(begin, strnlen(begin, size - index));
}

absl::Status Broken() { return absl::InvalidArgumentError("the compiler's output is not ELF"); }

struct Symbol {
  std::string name;
  int type = STT_NOTYPE;
  uint64_t bytes = 0;
  int section = -1;  // index into Image::sections; -1: undefined, or of none
  bool undefined = false;
};

struct Image {
  bool cuda = false;
  std::vector<Elf64_Shdr> sections;
  std::vector<std::string> section_names;
  bool has_symbols = false;
  std::vector<Symbol> symbols;
};

absl::Status ReadSymbols(const std::string& bytes, const Elf64_Shdr& table, Image* image) {
  const Elf64_Shdr& strings = image->sections[table.sh_link];
  for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
    const auto entry = At<Elf64_Sym>(bytes, table.sh_offset + at);
    if (!entry) return Broken();
    Symbol symbol;
    symbol.name = StringAt(bytes, strings.sh_offset, strings.sh_size, entry->st_name);
    symbol.type = ELF64_ST_TYPE(entry->st_info);
    symbol.bytes = entry->st_size;
    symbol.undefined = entry->st_shndx == SHN_UNDEF;
    if (!symbol.undefined && entry->st_shndx < image->sections.size()) {
      symbol.section = entry->st_shndx;
    }
    image->symbols.push_back(std::move(symbol));
  }
  return absl::OkStatus();
}

absl::StatusOr<Image> Read(const std::string& bytes) {
  const auto header = At<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) {
    return Broken();
  }
  Image image;
  image.cuda = header->e_machine == EM_CUDA;
  for (int i = 0; i < header->e_shnum; ++i) {
    const auto section = At<Elf64_Shdr>(bytes, header->e_shoff + uint64_t{header->e_shentsize} * i);
    if (!section) return Broken();
    image.sections.push_back(*section);
  }
  if (header->e_shstrndx >= image.sections.size()) return Broken();
  const Elf64_Shdr& names = image.sections[header->e_shstrndx];
  for (const Elf64_Shdr& section : image.sections) {
    image.section_names.push_back(StringAt(bytes, names.sh_offset, names.sh_size, section.sh_name));
  }
  for (const Elf64_Shdr& section : image.sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= image.sections.size()) continue;
    image.has_symbols = true;
    if (absl::Status status = ReadSymbols(bytes, section, &image); !status.ok()) return status;
  }
  return image;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> WritableGlobals(const std::string& bytes) {
  const auto image = Read(bytes);
  if (!image.ok()) return image.status();
  std::vector<std::string> found;
  for (const Symbol& symbol : image->symbols) {
    if (symbol.section < 0 || symbol.bytes == 0) continue;
    if (symbol.type != STT_OBJECT && symbol.type != STT_TLS) continue;
    const std::string& where = image->section_names[symbol.section];
    const bool host_writable = !image->cuda &&
                               (image->sections[symbol.section].sh_flags & SHF_WRITE) != 0 &&
                               where.rfind(".data.rel.ro", 0) != 0 && where != kHostConstants &&
                               symbol.name != kHostContext;
    if (IsCudaGlobal(where) || host_writable) found.push_back(symbol.name);
  }
  // Without symbols the sections alone have to do.
  for (size_t i = 0; i < image->sections.size() && !image->has_symbols; ++i) {
    if (IsCudaGlobal(image->section_names[i]) && image->sections[i].sh_size > 0) {
      found.push_back(image->section_names[i]);
    }
  }
  return found;
}

absl::StatusOr<std::vector<std::string>> UndefinedFunctions(const std::string& bytes) {
  const auto image = Read(bytes);
  if (!image.ok()) return image.status();
  std::vector<std::string> found;
  for (const Symbol& symbol : image->symbols) {
    // The linker of the host leaves the type of what it has not seen open.
    const bool function = symbol.type == STT_FUNC || (!image->cuda && symbol.type == STT_NOTYPE);
    if (symbol.undefined && function && !symbol.name.empty()) found.push_back(symbol.name);
  }
  return found;
}

}  // namespace warpsmith::device
