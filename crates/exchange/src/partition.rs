//! Rows to targets, targets to offsets and a permutation.
