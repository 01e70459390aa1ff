//! Uses that the types forbid: a handle belongs to one thread or task.
#![cfg(not(loom))]

#[test]
fn handles_belong_to_one_thread() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
