//! What the models of transports share. Each test program uses a part of it.
#![allow(dead_code)]

pub mod harness;
pub mod scenarios;
