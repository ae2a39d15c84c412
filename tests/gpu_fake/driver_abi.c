/* Compiled where CUDA's own header is at hand: src/gpu/driver.h declares what cuda.h does. */
#include <cuda.h>
#include <gpu/driver.h>
#include <stddef.h>

#define SAME(ours, theirs)         _Static_assert((ours) == (theirs), #ours)
#define MEMBER(ours, a, theirs, b) SAME(offsetof(struct ours, a), offsetof(theirs, b))

SAME(SMLA__CUDA_OUT_OF_MEMORY, (int)CUDA_ERROR_OUT_OF_MEMORY);
SAME(SMLA__CUDA_NO_DEVICE, (int)CUDA_ERROR_NO_DEVICE);
SAME(SMLA__CUDA_NO_BINARY_FOR_GPU, (int)CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(SMLA__CUDA_UNSUPPORTED_PTX, (int)CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(SMLA__CUDA_SYSTEM_DRIVER_MISMATCH, (int)CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(SMLA__CUDA_PROCESSORS, (int)CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(SMLA__CUDA_ARCH_MAJOR, (int)CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(SMLA__CUDA_ARCH_MINOR, (int)CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(SMLA__CUDA_MAX_SHARED, (int)CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(SMLA__CUDA_LARGE_CLUSTERS, (int)CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
SAME(SMLA__CUDA_CLUSTER, (int)CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(SMLA__CUDA_PROGRAMMATIC, (int)CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME(SMLA__CUDA_EVENT_NO_TIMING, (int)CU_EVENT_DISABLE_TIMING);
SAME(SMLA__CUDA_MEMORY_HOST, (int)CU_MEMORYTYPE_HOST);
SAME(SMLA__CUDA_MEMORY_DEVICE, (int)CU_MEMORYTYPE_DEVICE);

SAME(sizeof(struct smla__launch_attribute), sizeof(CUlaunchAttribute));
MEMBER(smla__launch_attribute, id, CUlaunchAttribute, id);
MEMBER(smla__launch_attribute, value, CUlaunchAttribute, value);
SAME(sizeof(struct smla__launch), sizeof(CUlaunchConfig));
MEMBER(smla__launch, grid_x, CUlaunchConfig, gridDimX);
MEMBER(smla__launch, block_x, CUlaunchConfig, blockDimX);
MEMBER(smla__launch, shared_bytes, CUlaunchConfig, sharedMemBytes);
MEMBER(smla__launch, stream, CUlaunchConfig, hStream);
MEMBER(smla__launch, attributes, CUlaunchConfig, attrs);
MEMBER(smla__launch, attribute_count, CUlaunchConfig, numAttrs);
SAME(sizeof(struct smla__copy_2d), sizeof(CUDA_MEMCPY2D));
MEMBER(smla__copy_2d, from_type, CUDA_MEMCPY2D, srcMemoryType);
MEMBER(smla__copy_2d, from_host, CUDA_MEMCPY2D, srcHost);
MEMBER(smla__copy_2d, from_pitch, CUDA_MEMCPY2D, srcPitch);
MEMBER(smla__copy_2d, to_x, CUDA_MEMCPY2D, dstXInBytes);
MEMBER(smla__copy_2d, to_type, CUDA_MEMCPY2D, dstMemoryType);
MEMBER(smla__copy_2d, to_device, CUDA_MEMCPY2D, dstDevice);
MEMBER(smla__copy_2d, to_pitch, CUDA_MEMCPY2D, dstPitch);
MEMBER(smla__copy_2d, width, CUDA_MEMCPY2D, WidthInBytes);
MEMBER(smla__copy_2d, height, CUDA_MEMCPY2D, Height);
SAME(sizeof(CUdeviceptr), sizeof(uint64_t));
SAME(sizeof(CUdevice), sizeof(int));
