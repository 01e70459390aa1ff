//! Certificates and keys in files.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use annulus_roundabout::secure::{Authority, FileError, HostName, Identity, Refusal, RingName};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject};

use crate::common::{Ring, host};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_made_can_be_loaded_and_keys_are_private() {
    let ring = Ring::new("one");
    let addresses = ["10.1.2.3", "::1", "node7.example"].map(str::to_owned);
    let files = ring.authority.add_host(&host("a"), &addresses).unwrap();
    let identity = Identity::load(&files.authority, &files.certificate, &files.key).unwrap();
    assert_eq!(identity.member().to_string(), "host a of ring one");
    assert_eq!(names(ring.folder.path()), ["ca-key.pem", "ca.pem", "host-a-key.pem", "host-a.pem"]);
    assert_eq!(mode(&files.key), 0o600);
    assert_eq!(mode(&ring.folder.path().join("ca-key.pem")), 0o600);
    assert_eq!(mode(&files.certificate), 0o644);

    let again = Authority::open(ring.folder.path()).unwrap();
    assert_eq!(again.ring().as_str(), "one");
    let files = again.add_host(&host("b"), &[]).unwrap();
    Identity::load(&files.authority, &files.certificate, &files.key).unwrap();
}

/// OpenSSL before 3.2 and Python's cryptography read no other version of Ed25519 keys.
#[test]
fn keys_are_pkcs8_of_version_1() {
    let ring = Ring::new("one");
    let host = ring.authority.add_host(&host("a"), &[]).unwrap();
    for path in [host.key, ring.folder.path().join("ca-key.pem")] {
        let key = PrivatePkcs8KeyDer::from_pem_file(&path).unwrap();
        // SEQUENCE { INTEGER version, .. }: version 1 is written 0, and version 2 is written 1.
        let [0x30, _, 0x02, 0x01, version, ..] = key.secret_pkcs8_der() else { panic!("not a PKCS#8 key") };
        assert_eq!(*version, 0, "{}", path.display());
    }
}

#[test]
fn nothing_is_overwritten() {
    let ring = Ring::new("one");
    let folder = ring.folder.path();
    let files = ring.authority.add_host(&host("a"), &[]).unwrap();
    let content = || names(folder).into_iter().map(|name| fs::read(folder.join(name)).unwrap()).collect::<Vec<_>>();
    let before = content();
    let error = Authority::create(folder, "two".parse().unwrap()).unwrap_err();
    assert!(matches!(error, FileError::Exists { .. }), "{error}");
    let error = ring.authority.add_host(&host("a"), &[]).unwrap_err();
    assert!(matches!(error, FileError::Exists { .. }), "{error}");
    assert_eq!(content(), before);

    // If one of the two exists, the other one is not written either.
    fs::remove_file(&files.key).unwrap();
    assert!(
        matches!(ring.authority.add_host(&host("a"), &[]), Err(FileError::Exists { path }) if path == files.certificate)
    );
    assert!(!files.key.exists());
    fs::remove_file(&files.certificate).unwrap();
    fs::write(&files.key, "mine").unwrap();
    assert!(matches!(ring.authority.add_host(&host("a"), &[]), Err(FileError::Exists { path }) if path == files.key));
    assert_eq!(fs::read(&files.key).unwrap(), b"mine");
    assert_eq!(names(folder), ["ca-key.pem", "ca.pem", "host-a-key.pem"]);
}

#[test]
fn keys_that_others_can_read_are_refused() {
    let ring = Ring::new("one");
    let files = ring.authority.add_host(&host("a"), &[]).unwrap();
    let authority_key = ring.folder.path().join("ca-key.pem");
    for open in [0o640, 0o604, 0o620, 0o666] {
        for key in [&files.key, &authority_key] {
            fs::set_permissions(key, fs::Permissions::from_mode(open)).unwrap();
        }
        let error = Identity::load(&files.authority, &files.certificate, &files.key).unwrap_err();
        assert!(
            matches!(&error, FileError::OpenEndpoint { path, mode } if *path == files.key && *mode == open),
            "{error}"
        );
        assert!(error.to_string().contains("chmod 600"), "{error}");
        assert!(matches!(Authority::open(ring.folder.path()), Err(FileError::OpenEndpoint { .. })));
    }
    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o400)).unwrap();
    Identity::load(&files.authority, &files.certificate, &files.key).unwrap();
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let (ring, other, namesake) = (Ring::new("one"), Ring::new("two"), Ring::new("one"));
    let a = ring.authority.add_host(&host("a"), &[]).unwrap();
    let b = ring.authority.add_host(&host("b"), &[]).unwrap();
    let error = Identity::load(&a.authority, &a.certificate, &b.key).unwrap_err();
    assert!(matches!(&error, FileError::KeyMismatch { .. }), "{error}");
    for ring in [&other, &namesake] {
        let error = Identity::load(&ring.folder.path().join("ca.pem"), &a.certificate, &a.key).unwrap_err();
        assert!(matches!(&error, FileError::Certificate { refusal: Refusal::Stranger { .. }, .. }), "{error}");
        assert!(
            error.to_string().contains("it names host a") && error.to_string().ends_with("copy them again"),
            "{error}"
        );
    }
    // A host's certificate is not an authority's, and an authority's is not a host's.
    let error = Identity::load(&a.certificate, &a.certificate, &a.key).unwrap_err();
    assert!(matches!(&error, FileError::Content { path, .. } if *path == a.certificate), "{error}");
    let error = Identity::load(&a.authority, &a.authority, &a.key).unwrap_err();
    assert!(matches!(&error, FileError::Certificate { .. }), "{error}");

    // The authority's own files were mixed up. No certificate is issued that other members would
    // refuse.
    fs::copy(namesake.folder.path().join("ca.pem"), ring.folder.path().join("ca.pem")).unwrap();
    let mixed = Authority::open(ring.folder.path()).unwrap();
    assert!(matches!(mixed.add_host(&host("c"), &[]), Err(FileError::Certificate { .. })));
    assert!(!ring.folder.path().join("host-c-key.pem").exists());
}

#[test]
fn what_is_no_certificate_is_named() {
    let ring = Ring::new("one");
    let files = ring.authority.add_host(&host("a"), &[]).unwrap();
    let key = fs::read(&files.key).unwrap();
    let half = &key[..key.len() / 2];
    for content in [b"".as_slice(), b"hello", half, b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        for broken in [&files.authority, &files.certificate, &files.key] {
            let before = fs::read(broken).unwrap();
            fs::write(broken, content).unwrap();
            let error = Identity::load(&files.authority, &files.certificate, &files.key).unwrap_err();
            assert!(error.to_string().contains(broken.to_str().unwrap()), "{error}");
            fs::write(broken, before).unwrap();
        }
    }
    let missing = ring.folder.path().join("none.pem");
    let error = Identity::load(&files.authority, &missing, &files.key).unwrap_err();
    assert!(matches!(&error, FileError::Io { path, .. } if *path == missing), "{error}");
    Identity::load(&files.authority, &files.certificate, &files.key).unwrap();
}

#[test]
fn certificates_that_are_over_are_refused() {
    let ring = Ring::new("one");
    let credentials = ring.issue(|params| {
        crate::common::name(params, "annulus://one/a");
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    });
    let (certificate, key) = (ring.folder.path().join("old.pem"), ring.folder.path().join("old-key.pem"));
    fs::write(&certificate, credentials.certificate.pem()).unwrap();
    fs::write(&key, credentials.key.serialize_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let error = Identity::load(&ring.folder.path().join("ca.pem"), &certificate, &key).unwrap_err();
    assert!(matches!(&error, FileError::Certificate { refusal: Refusal::Expired { .. }, .. }), "{error}");
    assert!(error.to_string().contains("days ago"), "{error}");
}

#[test]
fn names_stay_names() {
    for good in ["a", "0", "node-7.rack_2", &"x".repeat(63)] {
        assert_eq!(HostName::new(good).unwrap().as_str(), good);
    }
    for bad in ["", "..", ".a", "-a", "_a", "a/b", "a b", "ä", "a\n", "a:b", &"x".repeat(64)] {
        let error = HostName::new(bad).unwrap_err();
        assert!(error.to_string().contains("host"), "{error}");
        assert!(RingName::new(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn addresses_that_no_certificate_holds_are_refused() {
    let ring = Ring::new("one");
    let error = ring.authority.add_host(&host("a"), &["mäuse.example".to_owned()]).unwrap_err();
    assert!(matches!(&error, FileError::Address { address } if address == "mäuse.example"), "{error}");
    assert_eq!(names(ring.folder.path()), ["ca-key.pem", "ca.pem"]);
}
