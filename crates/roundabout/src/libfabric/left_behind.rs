//! Removes the file that an endpoint in shared memory leaves behind if its process is killed. Only
//! its neighbours know its name.

use std::{fs, path::Path};

const SCHEME: &str = "fi_shm://";
const FOLDER: &str = "/dev/shm";

/// Removes the file of an endpoint in shared memory, if `address` names one. Processes that have it
/// open are not affected.
pub(crate) fn remove(address: &[u8]) {
    if let Some(name) = name(address) {
        // Usually it is already gone: a host that ends removes its own file.
        let _ = fs::remove_file(Path::new(FOLDER).join(name));
    }
}

/// Returns the name of the file: the numbers of its process, user and endpoint. Returns `None` for
/// any other address, which must not be removed.
pub(super) fn name(address: &[u8]) -> Option<&str> {
    let address = str::from_utf8(address).ok()?.trim_end_matches('\0');
    let name = address.strip_prefix(SCHEME)?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    (name.split(':').count() == 3 && name.split(':').all(is_number)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_endpoints_have_names() {
        assert_eq!(name(b"fi_shm://16351:0:16\0"), Some("16351:0:16"));
        let others: [&[u8]; 6] = [
            b"fi_shm://../etc/passwd\0",
            b"fi_shm://1:2:/../x",
            b"fi_shm://1:2:",
            b"fi_shm://12",
            b"16351:0:16",
            b"\x02\0\xb1\xff\x7f\0\0\x01",
        ];
        assert!(others.iter().all(|other| name(other).is_none()));
    }
}
