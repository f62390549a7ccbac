"""The ids of the special subwords: the same in every vocabulary."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3

TERM_TAGS = ("<term>", "</term>")  # around the wanted translation of the term before them: see data.augment.terms
