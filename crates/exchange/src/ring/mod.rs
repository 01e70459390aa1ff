//! `Ring<T>`: groups of slots that every consumer reads.
