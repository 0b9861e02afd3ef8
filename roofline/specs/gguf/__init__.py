"""GGUF files, in which llama.cpp keeps models: their headers, and what their keys and tensors mean.

`header` reads a file, or the parts that it is split into; `architectures` says what the keys of each architecture are called in
a config.json; `names` says what its tensors are called. No tensor is read.
"""
