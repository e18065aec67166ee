#include "runtime/driver/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <filesystem>
#include <system_error>

namespace sinter {
namespace {

struct BuildIdQuery {
  ElfW(Addr) base;
  std::string hex;
};

size_t padded_to_4(size_t bytes) { return (bytes + 3) & ~size_t{3}; }

// Finds the build id among the notes of one segment (ELF specification, "Note Section").
std::string build_id_in(const std::byte* notes, size_t bytes) {
  constexpr ElfW(Word) kBuildIdType = 3;  // NT_GNU_BUILD_ID
  size_t at = 0;
  while (at + sizeof(ElfW(Nhdr)) <= bytes) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes + at, sizeof(header));
    const std::byte* name = notes + at + sizeof(header);
    const size_t name_bytes = padded_to_4(header.n_namesz);
    const size_t end = at + sizeof(header) + name_bytes + padded_to_4(header.n_descsz);
    if (end > bytes) break;
    if (header.n_type == kBuildIdType && header.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      std::string hex;
      for (size_t i = 0; i < header.n_descsz; ++i) {
        hex += fmt::format("{:02x}", std::to_integer<unsigned>(name[name_bytes + i]));
      }
      return hex;
    }
    at = end;
  }
  return {};
}

int find_build_id(dl_phdr_info* info, size_t, void* data) {
  auto& query = *static_cast<BuildIdQuery*>(data);
  if (info->dlpi_addr != query.base) return 0;
  for (size_t i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    query.hex = build_id_in(reinterpret_cast<const std::byte*>(info->dlpi_addr + segment.p_vaddr),
                            segment.p_memsz);
    if (!query.hex.empty()) break;
  }
  return 1;
}

const link_map* link_map_of(void* handle) {
  link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map : nullptr;
}

}  // namespace

Result<SharedLibrary> SharedLibrary::open(std::span<const std::string> candidates,
                                          std::string_view what, std::string_view remedy) {
  std::string log;
  for (const std::string& candidate : candidates) {
    if (void* handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      const link_map* map = link_map_of(handle);
      std::string path = map != nullptr ? map->l_name : candidate;
      std::error_code error;
      const auto resolved = std::filesystem::canonical(path, error);
      if (!error) path = resolved.string();
      return SharedLibrary(handle, std::move(path));
    }
    const char* reason = dlerror();
    log += fmt::format("{}: {}\n", candidate, reason != nullptr ? reason : "unknown reason");
  }
  return fail({.kind = ErrorKind::kDeviceError,
               .message = fmt::format("{} cannot be opened", what),
               .remedy = std::string(remedy),
               .log = std::move(log)});
}

void* SharedLibrary::symbol(const char* name) const { return dlsym(handle_, name); }

std::string SharedLibrary::identity() const {
  if (const link_map* map = link_map_of(handle_)) {
    BuildIdQuery query{.base = map->l_addr, .hex = {}};
    dl_iterate_phdr(find_build_id, &query);
    if (!query.hex.empty()) return query.hex;
  }
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path_, error);
  const auto written = std::filesystem::last_write_time(path_, error).time_since_epoch().count();
  return fmt::format("{} {} {}", path_, bytes, written);
}

}  // namespace sinter
