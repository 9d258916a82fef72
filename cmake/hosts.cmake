# What command hosts bring along in the binary: the shim of Node and the program that loads shared objects.
add_executable(abx-gen-packed guest/server/hosts/pack/gen.c)
target_link_libraries(abx-gen-packed PRIVATE abx_lib_base z)
set_target_properties(abx-gen-packed PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)

# abx_packed_blob(LIB NAME FILE): FILE, packed (guest/server/hosts/unpack.h), as abx_blob_NAME .. abx_blob_NAME_end
# in LIB.
function(abx_packed_blob lib name plain)
  set(file ${CMAKE_BINARY_DIR}/gen/${name}.packed)
  add_custom_command(OUTPUT ${file} COMMAND abx-gen-packed ${plain} ${file} DEPENDS abx-gen-packed ${plain} VERBATIM)
  set(source ${CMAKE_BINARY_DIR}/gen/blob-${name}.S)
  file(WRITE ${source} "
.section .rodata
.balign 16
.globl abx_blob_${name}, abx_blob_${name}_end
.hidden abx_blob_${name}, abx_blob_${name}_end
abx_blob_${name}: .incbin \"${file}\"
abx_blob_${name}_end:
.byte 0
.section .note.GNU-stack,\"\",@progbits
")
  set_source_files_properties(${source} PROPERTIES LANGUAGE ASM OBJECT_DEPENDS ${file} COMPILE_OPTIONS "-w")
  target_sources(${lib} PRIVATE ${source})
endfunction()

# abx_joined(OUT FILE...): the files, one after the other.
function(abx_joined out)
  add_custom_command(OUTPUT ${out} COMMAND ${CMAKE_COMMAND} -E cat ${ARGN} > ${out} DEPENDS ${ARGN} VERBATIM)
endfunction()

set(abx_node ${CMAKE_SOURCE_DIR}/guest/server/hosts/node)
set(abx_node_host ${CMAKE_BINARY_DIR}/gen/node-host.mjs)
abx_joined(${abx_node_host} ${abx_node}/shim.mjs ${abx_node}/files.mjs)
abx_packed_blob(abx_guest_server_hosts node ${abx_node_host})
set(abx_browser_host ${CMAKE_BINARY_DIR}/gen/browser-host.mjs)
abx_joined(${abx_browser_host} ${abx_node}/shim.mjs ${abx_node}/browser.mjs)
abx_packed_blob(abx_guest_server_hosts browser ${abx_browser_host})

# Dynamic in every preset: it loads what users compile. Its symbols are the API of include/abx/commands.h. No sanitizer
# but ThreadSanitizer: each call is a thread.
set(abx_native_host ${CMAKE_BINARY_DIR}/gen/abx-native-host)
set(abx_native_sources guest/server/hosts/native/host.c lib/json/scan.c guest/server/hosts/text.c
  lib/base/buf.c lib/base/str.c lib/base/assert.c)
list(TRANSFORM abx_native_sources PREPEND ${CMAKE_SOURCE_DIR}/)
set(abx_native_sanitize -s)
if(ABX_SANITIZE MATCHES "thread")
  set(abx_native_sanitize -g -fsanitize=thread)
endif()
add_custom_command(OUTPUT ${abx_native_host}
  COMMAND ${CMAKE_C_COMPILER} -std=c17 -D_GNU_SOURCE -O2 -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE -pie
    -pthread -rdynamic ${abx_native_sanitize} -fvisibility=hidden -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
    -Wmissing-prototypes -Wstrict-prototypes -Werror -Wl,-z,relro,-z,now,--gc-sections -ffunction-sections
    -I${CMAKE_SOURCE_DIR} -I${CMAKE_SOURCE_DIR}/include ${abx_native_sources} -o ${abx_native_host}
  DEPENDS ${abx_native_sources} ${CMAKE_SOURCE_DIR}/include/abx/commands.h
    ${CMAKE_SOURCE_DIR}/lib/json/scan.h ${CMAKE_SOURCE_DIR}/guest/server/hosts/text.h VERBATIM)
abx_packed_blob(abx_guest_server_hosts native ${abx_native_host})
