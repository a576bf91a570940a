//! registry+v1 bundles: parse, validate, render, derive least rights.
