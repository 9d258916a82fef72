# The programs: abx-guest (inside a sandbox), abx-shim (parent of its PID 1), abx (host).

# The sandbox's seccomp filter, made at build time (security S54).
add_executable(abx-gen-seccomp host/runtime/seccomp/gen.c)
target_link_libraries(abx-gen-seccomp PRIVATE seccomp)
set_target_properties(abx-gen-seccomp PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)
set(abx_seccomp_h ${CMAKE_BINARY_DIR}/gen/host/runtime/shim/seccomp_filter.h)
add_custom_command(OUTPUT ${abx_seccomp_h}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/gen/host/runtime/shim
  COMMAND abx-gen-seccomp > ${abx_seccomp_h} DEPENDS abx-gen-seccomp VERBATIM)

# abx-shim: musl, static, no sanitizers in any preset: it must stay a few pages small.
file(GLOB abx_shim_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/host/runtime/shim/*.c)
file(GLOB abx_shim_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/host/runtime/shim/*.h
  ${CMAKE_SOURCE_DIR}/host/runtime/shim_proto.h)
find_program(ABX_MUSL_GCC musl-gcc REQUIRED)
set(abx_shim ${CMAKE_BINARY_DIR}/bin/abx-shim)
add_custom_command(OUTPUT ${abx_shim}
  COMMAND ${ABX_MUSL_GCC} -std=c17 -D_GNU_SOURCE -Os -static -s -ffunction-sections -Wl,--gc-sections -Wall -Wextra -Wpedantic -Wshadow
    -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers -Wstrict-prototypes
    -Wmissing-prototypes -Wundef -Wvla -Wwrite-strings -Wcast-qual -Wformat=2 -Werror
    -fstack-protector-strong -Wl,-z,relro,-z,now -Wl,-z,noseparate-code
    -I${CMAKE_SOURCE_DIR} -I${CMAKE_BINARY_DIR}/gen ${abx_shim_sources} -o ${abx_shim}
  DEPENDS ${abx_shim_sources} ${abx_shim_headers} ${abx_seccomp_h} VERBATIM)
add_custom_target(abx-shim ALL DEPENDS ${abx_shim})

# What runs as PID 1 in the sandboxes of host/runtime's tests.
file(GLOB abx_attack_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/attacks/*.c)
set(abx_attack_guest ${CMAKE_BINARY_DIR}/tests/attack-guest)
add_custom_command(OUTPUT ${abx_attack_guest}
  COMMAND ${ABX_MUSL_GCC} -std=c17 -D_GNU_SOURCE -O1 -static -Wall -Wextra -Werror
    -I${CMAKE_SOURCE_DIR} ${abx_attack_sources} -o ${abx_attack_guest}
  DEPENDS ${abx_attack_sources} ${CMAKE_SOURCE_DIR}/tests/attacks/attacks.h VERBATIM)
add_custom_target(abx-attack-guest ALL DEPENDS ${abx_attack_guest})
