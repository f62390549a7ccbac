"""The ids of the special subwords: the same in every vocabulary."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3
