"""The benchmark of quality: scenes built by script, captured, fitted with each setting, and measured."""
