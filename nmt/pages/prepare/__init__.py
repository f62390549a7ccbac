"""The page of `nmt prepare --report`: the prepared data, and how it was cleaned."""
