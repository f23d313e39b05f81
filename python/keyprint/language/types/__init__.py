"""Types of the kernel language: numbers, vectors and matrices, structs, arrays, fields, annotations."""
