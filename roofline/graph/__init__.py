"""From a model, a deployment and a step to the operators that one device runs: `{path: (operator, repeat)}`.

This is the only place that divides dimensions over devices (`sharding`) and that inserts collectives (`build`).

* Tensor parallelism (t devices, Megatron-LM, arXiv:1909.08053): query heads, inner widths and the vocabulary are divided;
  KV heads too, or replicated where there are fewer of them than devices; norms, routers and latent caches are replicated.
  Heads (channels) of recurrent layers are divided with their state, groups of heads that share keys like KV heads.
  Each block ends with an all-reduce of its output, and so does a product inside a block whose input is divided.
  Hyper-connections (several residual streams) are replicated.
* Sequence parallelism (Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2) divides what stands between the blocks of
  tensor-parallel devices, norms, additions and the residual stream, by tokens: the all-reduce at the end of a block is cut
  into a reduce-scatter there and an all-gather before the next block. A device keeps 1/t of the tokens in between.
* Context parallelism (c devices, Llama 3, arXiv:2407.21783, section 3.3.2): the tokens of each sequence are divided, new
  ones and cached ones. Of a prompt a device has two of 2c pieces, so that all have as many (query, key) pairs; what is
  cached of a sequence is gathered from all, and its queries meet every key before them. Of a decoded token there is nothing
  to divide but the keys: every device does all but attention for itself, attends to its 1/c of the keys, and the outputs
  are joined by the logarithms of their sums of exponentials. The devices of one tensor-parallel group lie side by side,
  those of a context-parallel group t apart.
* Pipeline parallelism (p stages): consecutive layers; a send to the next stage. The embedding is on the first stage, the
  LM head on the last.
* Data parallelism (d replicas): the sequences are divided.
* Expert parallelism (e devices out of t*d): whole experts are divided. With e <= t the e devices see the same tokens and
  the all-reduce that follows anyway sums the experts' outputs; each expert is still divided over the t/e devices that
  share it. With e > t the devices of several replicas exchange tokens: all-to-all to the experts and back, each device
  dispatching its 1/t of the replica's tokens, and an all-gather within the replica. With `moe_tp` m devices, side by side,
  share each expert: e*m devices exchange tokens, those of one expert gather what they received, and reduce and scatter their
  partial outputs. With `expert_imbalance` the device shown is the busiest: its rows, and what is sent to it and back, are that
  many times the mean.
"""
