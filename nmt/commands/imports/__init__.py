"""Makes model files of models that other programs have trained, and checks that they translate alike."""
