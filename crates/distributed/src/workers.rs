//! The workers that a coordinator knows.

use std::{collections::HashSet, fs, net::ToSocketAddrs, path::Path, str::FromStr};

use datafusion::error::DataFusionError;
use datafusion_distributed::WorkerResolver;
use url::Url;

use crate::error::WorkersError;

/// The prefix of a name that stands for all addresses it resolves to.
const DNS: &str = "dns:";

/// A list of workers. Each worker runs a task of every stage that is large enough.
///
/// ```
/// use annulus_distributed::Workers;
///
/// let workers: Workers = "10.0.0.1:7500,10.0.0.2:7500".parse()?;
/// assert_eq!(workers.urls().len(), 2);
/// # Ok::<_, annulus_distributed::WorkersError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    urls: Vec<Url>,
}

impl Workers {
    /// Returns the workers at these addresses, each `HOST:PORT`.
    ///
    /// # Errors
    /// If the list is empty, or an address is invalid or listed twice.
    pub fn new<A: AsRef<str>>(addresses: impl IntoIterator<Item = A>) -> Result<Self, WorkersError> {
        let urls = addresses.into_iter().map(|address| url_of(address.as_ref())).collect::<Result<Vec<_>, _>>()?;
        if urls.is_empty() {
            return Err(WorkersError::None { list: String::new() });
        }
        let mut seen = HashSet::new();
        match urls.iter().find(|url| !seen.insert(*url)) {
            Some(url) => Err(WorkersError::Twice { address: address_of(url) }),
            None => Ok(Self { urls }),
        }
    }

    /// Returns the URLs of the workers.
    pub fn urls(&self) -> &[Url] {
        &self.urls
    }
}

impl FromStr for Workers {
    type Err = WorkersError;

    /// Returns the workers of a list: addresses with commas between them; the path of a file with an
    /// address in each line, where `#` begins a comment; or `dns:NAME:PORT`, where each address of the
    /// name is a worker.
    fn from_str(list: &str) -> Result<Self, WorkersError> {
        let addresses: Vec<String> = if let Some(name) = list.strip_prefix(DNS) {
            let resolved = name.to_socket_addrs();
            let resolved = resolved.map_err(|source| WorkersError::Name { name: name.to_owned(), source })?;
            let unique: HashSet<_> = resolved.collect();
            let mut unique: Vec<_> = unique.into_iter().collect();
            unique.sort_unstable();
            unique.iter().map(ToString::to_string).collect()
        } else if Path::new(list).is_file() {
            let text =
                fs::read_to_string(list).map_err(|source| WorkersError::File { path: list.to_owned(), source })?;
            let lines = text.lines().map(|line| line.split('#').next().unwrap_or(line).trim());
            lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
        } else {
            list.split(',').map(|address| address.trim().to_owned()).collect()
        };
        match addresses.is_empty() {
            true => Err(WorkersError::None { list: list.to_owned() }),
            false => Self::new(addresses),
        }
    }
}

impl WorkerResolver for Workers {
    fn get_urls(&self) -> Result<Vec<Url>, DataFusionError> {
        Ok(self.urls.clone())
    }
}

/// Returns the URL of the worker at `HOST:PORT`. An IPv6 address is in brackets.
pub(crate) fn url_of(text: &str) -> Result<Url, WorkersError> {
    let invalid = || WorkersError::Address { text: text.to_owned() };
    let has_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0));
    let url = Url::parse(&format!("http://{text}")).map_err(|_| invalid())?;
    let is_plain = url.host_str().is_some_and(|host| !host.is_empty())
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && !text.contains('/');
    if has_port && is_plain { Ok(url) } else { Err(invalid()) }
}

/// Returns the address of a worker, `HOST:PORT`.
pub fn address_of(url: &Url) -> String {
    format!("{}:{}", url.host_str().unwrap_or(""), url.port_or_known_default().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn addresses(list: &str) -> Result<Vec<String>, String> {
        let workers: Result<Workers, _> = list.parse();
        workers.map(|workers| workers.urls().iter().map(address_of).collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_list_has_an_address_for_each_worker() {
        assert_eq!(addresses("a:1, 10.0.0.2:80,[::1]:3").unwrap(), ["a:1", "10.0.0.2:80", "[::1]:3"]);
        for list in ["", "a", "a:0", "a:1,", "http://a:1", "a:1/x", "a:b", "a:1?x", "u@a:1", "a:70000"] {
            let error = addresses(list).unwrap_err();
            assert!(error.contains("HOST:PORT"), "{list}: {error}");
        }
        assert!(addresses("a:1,b:1,a:1").unwrap_err().contains("'a:1' is listed twice"));
    }

    #[test]
    fn a_file_has_an_address_in_each_line() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "# ours\n a:1 # first\n\nb:2\n").unwrap();
        assert_eq!(addresses(file.path().to_str().unwrap()).unwrap(), ["a:1", "b:2"]);
        let empty = tempfile::NamedTempFile::new().unwrap();
        assert!(addresses(empty.path().to_str().unwrap()).unwrap_err().contains("no workers in"));
    }

    #[test]
    fn a_name_stands_for_all_of_its_addresses() {
        assert_eq!(addresses("dns:127.0.0.1:7500").unwrap(), ["127.0.0.1:7500"]);
        assert!(addresses("dns:nowhere.invalid:1").unwrap_err().contains("cannot resolve"));
    }
}
