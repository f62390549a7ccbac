"""Looking inside a model: what it attends to, how its search went, its positions."""
