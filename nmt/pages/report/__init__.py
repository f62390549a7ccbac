"""The page of `nmt report`: one or several training runs."""
