//! The names of rings and hosts, as used in certificates and file names.

use std::{fmt, str::FromStr};

/// An invalid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid {kind} name '{name}': expected 1 to 63 letters, digits, '-', '_' or '.', the first a letter or a digit"
)]
pub struct NameError {
    name: String,
    kind: &'static str,
}

/// The largest length of a name.
const LENGTH_MAX: usize = 63;

fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    name.len() <= LENGTH_MAX
        && characters.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && characters.all(|character| character.is_ascii_alphanumeric() || "-_.".contains(character))
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(String);

        impl $type {
            /// Returns the name if it is valid: 1 to 63 letters, digits, `-`, `_` or `.`, of which the first
            /// is a letter or a digit.
            pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
                let name = name.into();
                if is_name(&name) { Ok(Self(name)) } else { Err(NameError { name, kind: $kind }) }
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $type {
            type Err = NameError;

            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }
    };
}

name! {
    /// The name of a ring.
    RingName, "ring"
}

name! {
    /// The name of a member in its ring, usually a host. It need not be known to a name server.
    HostName, "host"
}

/// The permissions of a member of a ring. No member has both roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Joins rows with the other hosts. It cannot give hosts orders.
    Host,
    /// Gives the hosts orders. It cannot take a host's place.
    Submitter,
}

impl Role {
    /// Returns the role's name in file names and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Submitter => "submitter",
        }
    }

    /// Returns the member with this role whose key has this file name.
    pub(super) fn of_key(self, file_name: &str) -> Option<HostName> {
        let name = file_name.strip_prefix(self.name())?.strip_prefix('-')?;
        name.strip_suffix("-key.pem")?.parse().ok()
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A member of a ring, as its certificate names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// The ring.
    pub ring: RingName,
    /// The member's permissions.
    pub role: Role,
    /// The member's name.
    pub host: HostName,
}

const SCHEME: &str = "annulus://";
const SUBMITTER: &str = "submitter";

impl Member {
    /// Returns the member's URI in its certificate: `annulus://RING/HOST` or
    /// `annulus://RING/submitter/NAME`.
    pub(super) fn uri(&self) -> String {
        match self.role {
            Role::Host => format!("{SCHEME}{}/{}", self.ring, self.host),
            Role::Submitter => format!("{SCHEME}{}/{SUBMITTER}/{}", self.ring, self.host),
        }
    }

    pub(super) fn from_uri(uri: &str) -> Option<Self> {
        let (ring, name) = uri.strip_prefix(SCHEME)?.split_once('/')?;
        let (role, name) = match name.split_once('/') {
            Some((SUBMITTER, name)) => (Role::Submitter, name),
            Some(_) => return None,
            None => (Role::Host, name),
        };
        Some(Self { ring: ring.parse().ok()?, role, host: name.parse().ok()? })
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of ring {}", self.role, self.host, self.ring)
    }
}

impl RingName {
    /// Returns the URI in the certificate of the ring's authority: `annulus://RING`.
    pub(super) fn uri(&self) -> String {
        format!("{SCHEME}{self}")
    }

    pub(super) fn from_uri(uri: &str) -> Option<Self> {
        uri.strip_prefix(SCHEME)?.parse().ok()
    }
}
