# The programs: abx-guest (inside a sandbox), abx-shim (parent of its PID 1), abx (host).

# abx-guest. Release: one static-pie file. Elsewhere it can not be static (sanitizers), so it brings
# its own loader and libraries: build/<preset>/guest-libs/ is laid over a sandbox as /.fce2b/lib.
# abx-guest-host is the same objects linked as an ordinary program, for tests on the host.
function(abx_add_guest)
  set(libs abx_guest abx_guest_init abx_guest_step abx_guest_gateway abx_guest_envd abx_guest_interpreter abx_guest_server)
  if(ABX_STATIC)
    add_executable(abx-guest guest/main.c)
    target_link_libraries(abx-guest PRIVATE ${libs})
    target_link_options(abx-guest PRIVATE -static-pie -Wl,-z,relro,-z,now $<$<CONFIG:Release>:-s>
      -Wl,--gc-sections,-z,pack-relative-relocs,-T,${CMAKE_SOURCE_DIR}/cmake/no-unwind.ld)
    set_target_properties(abx-guest PROPERTIES LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/no-unwind.ld)
    target_compile_definitions(guest_program_test PRIVATE ABX_GUEST_BYTES_MAX=2621440) # 2.5 MiB
    add_executable(abx-guest-host ALIAS abx-guest)
    return()
  endif()
  add_library(abx_guest_main OBJECT guest/main.c)
  target_link_libraries(abx_guest_main PUBLIC ${libs})
  foreach(program abx-guest abx-guest-host)
    add_executable(${program})
    target_link_libraries(${program} PRIVATE abx_guest_main)
  endforeach()
  target_link_options(abx-guest PRIVATE
    -Wl,--dynamic-linker=/.fce2b/lib/ld-linux-x86-64.so.2 -Wl,-rpath,/.fce2b/lib)
  add_custom_command(TARGET abx-guest-host POST_BUILD
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:abx-guest-host>
      -DOUT=${CMAKE_BINARY_DIR}/guest-libs -P ${CMAKE_SOURCE_DIR}/cmake/guest-libs.cmake
    VERBATIM)
  add_dependencies(abx-guest abx-guest-host) # its libraries come with the host's link
endfunction()
abx_add_guest()
# The server is the guest binary under its own name.
add_custom_target(agent-sandbox-server ALL
  COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE_NAME:abx-guest-host>
    ${CMAKE_BINARY_DIR}/bin/agent-sandbox-server
  DEPENDS abx-guest-host VERBATIM)
if(NOT ABX_FUZZ)
  add_dependencies(guest_program_test abx-guest) # it runs the program
endif()

# The sandbox's seccomp filter, made at build time (security S54).
add_executable(abx-gen-seccomp host/runtime/seccomp/gen.c)
target_link_libraries(abx-gen-seccomp PRIVATE seccomp)
set_target_properties(abx-gen-seccomp PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)
set(abx_seccomp_h ${CMAKE_BINARY_DIR}/gen/host/runtime/shim/seccomp_filter.h)
add_custom_command(OUTPUT ${abx_seccomp_h}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/gen/host/runtime/shim
  COMMAND abx-gen-seccomp > ${abx_seccomp_h} DEPENDS abx-gen-seccomp VERBATIM)

# The runtime side confines its workers by the same filter.
add_custom_target(abx-seccomp DEPENDS ${abx_seccomp_h})
add_dependencies(abx_host_runtime abx-seccomp)

# The seccomp filters of what agent-sandbox-server confines (security S04-S06).
add_executable(abx-gen-confine lib/proc/seccomp/gen.c)
target_link_libraries(abx-gen-confine PRIVATE seccomp)
set_target_properties(abx-gen-confine PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)
set(abx_confine_h ${CMAKE_BINARY_DIR}/gen/lib/proc/confine_filters.h)
add_custom_command(OUTPUT ${abx_confine_h}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/gen/lib/proc
  COMMAND abx-gen-confine > ${abx_confine_h} DEPENDS abx-gen-confine VERBATIM)
add_custom_target(abx-confine-filters DEPENDS ${abx_confine_h})
add_dependencies(abx_lib_proc abx-confine-filters)

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

# One attempt of a confined process: for the tests of lib/proc and of the server. Static, so that it
# runs wherever it lies.
set(abx_attack ${CMAKE_BINARY_DIR}/tests/attack)
add_custom_command(OUTPUT ${abx_attack}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/tests
  COMMAND ${ABX_MUSL_GCC} -std=c17 -D_GNU_SOURCE -O1 -static -Wall -Wextra -Werror
    ${CMAKE_SOURCE_DIR}/tests/server/attack.c -o ${abx_attack}
  DEPENDS ${CMAKE_SOURCE_DIR}/tests/server/attack.c VERBATIM)
add_custom_target(abx-attack ALL DEPENDS ${abx_attack})

# What runs as PID 1 in the sandboxes of host/runtime's tests.
file(GLOB abx_attack_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/attacks/*.c)
set(abx_attack_guest ${CMAKE_BINARY_DIR}/tests/attack-guest)
add_custom_command(OUTPUT ${abx_attack_guest}
  COMMAND ${ABX_MUSL_GCC} -std=c17 -D_GNU_SOURCE -O1 -static -Wall -Wextra -Werror
    -I${CMAKE_SOURCE_DIR} ${abx_attack_sources} -o ${abx_attack_guest}
  DEPENDS ${abx_attack_sources} ${CMAKE_SOURCE_DIR}/tests/attacks/attacks.h VERBATIM)
add_custom_target(abx-attack-guest ALL DEPENDS ${abx_attack_guest})
