"""The CUDA backend: how the ops of csrc/cuda are launched. The ops' modules beside this package are the public side."""
