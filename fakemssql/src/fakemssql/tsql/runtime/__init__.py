"""Running batches: control of flow, variables, transactions, settings, errors."""
