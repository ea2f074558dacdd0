"""Side-by-side measurements: a package, for others have one of this name."""
