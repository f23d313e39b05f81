"""From a function to an artifact: what the compiler asks about Python values, and the C compiler."""
