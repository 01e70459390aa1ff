//! Rows onto fixed-size pages, by partition: page layout, row codec, page managers and partitioners.
