//! Page managers: who may write where (paper, section 3.3).
