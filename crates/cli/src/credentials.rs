//! The certificates that an option names: a folder, or the certificate of one member in it.

use std::path::Path;

use annulus_roundabout::secure::{FileError, HostName, Identity, Role};
use anyhow::{Context, Result, bail};

/// The extension of certificates.
const EXTENSION: &str = "pem";

/// Returns the folder of `certificates`, a folder or a certificate in it.
pub fn folder(certificates: &Path) -> &Path {
    match certificates.extension().is_some_and(|extension| extension == EXTENSION) {
        // A name without a folder is in this one.
        true => certificates.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")),
        false => certificates,
    }
}

/// Loads the certificate and the key of a member with this role: `name` of the folder `certificates`,
/// that of the file `certificates`, or the only one of the folder.
///
/// # Errors
/// If there is none, there are several, or they do not belong together.
pub fn load(certificates: &Path, name: Option<&HostName>, role: Role) -> Result<Identity> {
    let folder = folder(certificates);
    let name = match name {
        Some(name) => Some(name.clone()),
        None if folder == certificates => None,
        None => Some(name_in(certificates, role)?),
    };
    Identity::in_folder(folder, role, name.as_ref()).map_err(|error| match error {
        FileError::SeveralKeys { .. } => {
            let certificate = folder.join(format!("{role}-NAME.{EXTENSION}"));
            anyhow::anyhow!("{error}, as in --certificates {}", certificate.display())
        }
        error => error.into(),
    })
}

/// Returns the name of the member whose certificate is at `path`.
fn name_in(path: &Path, role: Role) -> Result<HostName> {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let Some(name) = stem.strip_prefix(&format!("{role}-")) else {
        bail!(
            "invalid --certificates '{}': expected a folder, or a file named {role}-NAME.{EXTENSION}",
            path.display()
        );
    };
    name.parse().with_context(|| format!("invalid --certificates '{}'", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_names_its_folder_and_its_member() {
        for (given, expected) in [("certs", "certs"), ("certs/host-a.pem", "certs"), ("host-a.pem", ".")] {
            assert_eq!(folder(Path::new(given)), Path::new(expected), "{given}");
        }
        let name = |path| name_in(Path::new(path), Role::Host);
        assert_eq!(name("certs/host-a.b.pem").unwrap(), "a.b".parse().unwrap());
        let error = name("certs/ca.pem").unwrap_err().to_string();
        assert_eq!(error, "invalid --certificates 'certs/ca.pem': expected a folder, or a file named host-NAME.pem");
    }
}
