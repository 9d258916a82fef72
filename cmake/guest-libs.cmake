# Copies the loader and every shared library of PROGRAM to the folder OUT, under their sonames.
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${PROGRAM} RESOLVED_DEPENDENCIES_VAR found
  UNRESOLVED_DEPENDENCIES_VAR missing)
if(missing)
  message(FATAL_ERROR "guest-libs: not found: ${missing}")
endif()
file(REMOVE_RECURSE ${OUT})
file(MAKE_DIRECTORY ${OUT})
list(APPEND found /lib64/ld-linux-x86-64.so.2)
foreach(lib ${found})
  get_filename_component(name ${lib} NAME)
  get_filename_component(real ${lib} REALPATH)
  configure_file(${real} ${OUT}/${name} COPYONLY)
endforeach()
