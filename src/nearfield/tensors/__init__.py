"""PyTorch tensors in, tensors out, on any device: the same models, in batches of centres instead of threads.

These modules import PyTorch, and are themselves imported only once a tensor is seen. The mathematics that the array-API
standard can express (kernels, feature maps) is shared with NumPy; what is here is what a device does differently:
neighbourhoods by sorting into cells, and many small factorisations at once.
"""
