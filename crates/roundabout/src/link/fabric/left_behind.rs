//! What an endpoint in shared memory leaves behind if its process is killed: nobody but its neighbours knows the name.

use std::{fs, path::Path};

const SCHEME: &str = "fi_shm://";
const FOLDER: &str = "/dev/shm";

/// Removes it, if the address is of such an endpoint, and it has not been removed. Who still uses it can go on.
pub(super) fn remove(address: &[u8]) {
    if let Some(name) = name(address) {
        // Most are gone: a host that ends removes its own.
        let _ = fs::remove_file(Path::new(FOLDER).join(name));
    }
}

/// The name of its file: numbers of its process, user and endpoint. Another address is none of ours to remove.
fn name(address: &[u8]) -> Option<&str> {
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
