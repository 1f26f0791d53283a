"""Tensors in, tensors out: the operations that decide the speed of a search or a build."""
