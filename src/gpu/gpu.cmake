# The CUDA backend: C alone. With nvcc the kernels are compiled and embedded; without, the same functions stand and say
# so.
target_sources(smla_objects PRIVATE gpu/backend_cuda.c gpu/decode_plan.c gpu/check_gpu.c gpu/driver.c gpu/gpu.c gpu/images.c
    gpu/portable.c gpu/run_gpu.c gpu/small_gpu.c gpu/step_gpu.c)
target_include_directories(smla_objects PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/gpu ${PROJECT_SOURCE_DIR}/kernels)

set(SMLA_CUDA AUTO CACHE STRING "GPU kernels: AUTO (if nvcc is found), ON or OFF")
set_property(CACHE SMLA_CUDA PROPERTY STRINGS AUTO ON OFF)
set(SMLA_IMAGES ${CMAKE_CURRENT_BINARY_DIR}/images CACHE PATH "compiled GPU kernels; build folders may share them")
if(SMLA_CUDA STREQUAL OFF)
    return()
endif()
find_program(SMLA_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(NOT SMLA_NVCC)
    if(SMLA_CUDA STREQUAL ON)
        message(FATAL_ERROR "SMLA_CUDA=ON needs nvcc (CUDA 12 or later)")
    endif()
    message(STATUS "nvcc is absent: no GPU kernels")
    return()
endif()

# Code for Hopper alone, or for every GPU since sm_80: code for those that this nvcc knows, and PTX for later ones.
set(hopper -gencode arch=compute_90a,code=sm_90a)
set(portable -gencode arch=compute_80,code=[compute_80,sm_80])
execute_process(COMMAND ${SMLA_NVCC} --list-gpu-code OUTPUT_VARIABLE known)
foreach(arch 86 89 90 100 120)
    if(known MATCHES "sm_${arch}\n")
        list(APPEND portable -gencode arch=compute_${arch},code=sm_${arch})
    endif()
endforeach()
set(images ${SMLA_IMAGES})
file(MAKE_DIRECTORY ${images})
set(kernels decode_h1 decode_h2 decode_h4 decode_h8 cache_write merge check_lists decode_portable)
foreach(kernel ${kernels})
    set(code ${portable})
    if(kernel MATCHES "^decode_h[0-9]")
        set(code ${hopper})
    endif()
    set(source ${PROJECT_SOURCE_DIR}/kernels/${kernel}.cu)
    add_custom_command(OUTPUT ${images}/${kernel}.fatbin
        COMMAND ${SMLA_NVCC} -fatbin ${code} -I ${PROJECT_SOURCE_DIR}/kernels -MD -MF ${images}/${kernel}.d
            -Xptxas --warn-on-spills,--warn-on-local-memory-usage,--warning-as-error
            ${source} -o ${images}/${kernel}.fatbin
        DEPENDS ${source} DEPFILE ${images}/${kernel}.d COMMENT "Compiling kernels/${kernel}.cu" VERBATIM)
    list(APPEND files ${images}/${kernel}.fatbin)
endforeach()
add_custom_target(smla_images DEPENDS ${files})
add_dependencies(smla_objects smla_images)
set_property(SOURCE gpu/images.c APPEND PROPERTY OBJECT_DEPENDS "${files}")
set_property(SOURCE gpu/images.c APPEND PROPERTY COMPILE_DEFINITIONS SMLA_IMAGE_FOLDER="${images}")
