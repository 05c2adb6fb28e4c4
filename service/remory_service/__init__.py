"""The service: HTTP and SQL around the library. It knows no kernels, and of tensors only their bytes."""
