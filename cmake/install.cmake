# What `cmake --install` puts where: libraries, header, tool, man page, pkg-config and CMake packages.
# Everything installed finds its neighbours by relative paths, so any prefix and DESTDIR will do.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/smla)

foreach(kind shared static)
    install(TARGETS smla_${kind} EXPORT smla_${kind}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(EXPORT smla_${kind} NAMESPACE smla:: FILE smla-${kind}.cmake DESTINATION ${package_dir})
endforeach()
install(DIRECTORY include/smla DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES docs/numerics.md examples/engine_loop.c DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(SMLA_TOOL)
    install(TARGETS smla_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    install(FILES man/smla.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# The static library needs the OpenMP runtime of the compiler that built it: gomp is everywhere by its
# name, any other runtime is named by its path.
set(openmp_names "")
if(SMLA_OPENMP)
    set(openmp_names ${OpenMP_C_LIB_NAMES})
endif()
set(private_libs "")
foreach(name IN LISTS openmp_names)
    if(name MATCHES "^(gomp|pthread)$")
        list(APPEND private_libs -l${name})
    else()
        list(APPEND private_libs ${OpenMP_${name}_LIBRARY})
    endif()
endforeach()
list(APPEND private_libs -lm -ldl)
list(JOIN private_libs " " private_libs)

if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR} OR IS_ABSOLUTE ${CMAKE_INSTALL_INCLUDEDIR})
    message(FATAL_ERROR "CMAKE_INSTALL_LIBDIR and CMAKE_INSTALL_INCLUDEDIR must be relative to the prefix")
endif()
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" prefix_from_pc ${prefix_from_pc})
configure_file(cmake/smla.pc.in package/smla.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/smla.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Before 1.0 a minor version may change the ABI.
configure_file(cmake/smlaConfig.cmake.in package/smlaConfig.cmake @ONLY)
write_basic_package_version_file(package/smlaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/smlaConfig.cmake ${PROJECT_BINARY_DIR}/package/smlaConfigVersion.cmake
    DESTINATION ${package_dir})
