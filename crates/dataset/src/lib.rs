//! Datasets in files: read, split by key in bounded memory, written so that only whole files show.
