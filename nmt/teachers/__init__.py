"""Services with large language models as translators: an endpoint in place of a model file."""
