"""M2M-100, SMaLL-100 and NLLB, of transformers."""
