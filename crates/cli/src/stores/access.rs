//! Stores whose errors say how to get access to them.

use std::{error::Error as StdError, fmt, sync::Arc};

use async_trait::async_trait;
use futures::{StreamExt, stream::BoxStream};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, path::Path,
};

use crate::errors::ACCESS;

/// A provider of stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    S3,
    Google,
    Azure,
}

/// The answers to requests without access. The library has no type for those to listings.
const DENIED: [&str; 2] = ["401 Unauthorized", "403 Forbidden"];
/// What the library says when a bucket is in another region, or the server of credentials is missing.
const OTHER_REGION: &str = "incorrectly configured region";
const NO_METADATA: &str = "metadata";

impl Provider {
    fn name(self) -> &'static str {
        match self {
            Self::S3 => "S3",
            Self::Google => "GCS",
            Self::Azure => "Azure",
        }
    }

    /// Returns what to do about an error, if it is one of access.
    fn remedy(self, error: &Error) -> Option<&'static str> {
        let text = error.to_string();
        let is_denied = matches!(error, Error::Unauthenticated { .. } | Error::PermissionDenied { .. })
            || DENIED.iter().any(|answer| text.contains(answer));
        match self {
            Self::S3 if is_denied => {
                Some("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; 'aws configure export-credentials' prints them")
            }
            Self::S3 if text.contains(OTHER_REGION) => Some("set AWS_REGION to the region of the bucket"),
            Self::Google if is_denied || text.contains(NO_METADATA) => {
                Some("set GOOGLE_SERVICE_ACCOUNT to the path of a key file, or GOOGLE_SKIP_SIGNATURE=true")
            }
            Self::Azure if is_denied => Some("set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"),
            _ => None,
        }
    }

    /// Returns an error of access with its remedy, and others as they are.
    fn explain(self, error: Error) -> Error {
        match self.remedy(&error) {
            Some(remedy) => Error::Generic { store: self.name(), source: Box::new(AccessError { error, remedy }) },
            None => error,
        }
    }
}

/// An error of access, and what to do about it.
#[derive(Debug)]
struct AccessError {
    error: Error,
    remedy: &'static str,
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{ACCESS}{}", self.error, self.remedy)
    }
}

impl StdError for AccessError {}

/// A store of a provider.
#[derive(Debug)]
pub struct AccessStore {
    store: Arc<dyn ObjectStore>,
    provider: Provider,
}

impl AccessStore {
    /// Returns the store that was built.
    ///
    /// # Errors
    /// The error of the builder. The one of Azure refuses to build without an account.
    pub fn new(provider: Provider, built: Result<impl ObjectStore>) -> Result<Self> {
        let remedy = "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY";
        let store = built.map_err(|error| match provider {
            Provider::Azure => {
                Error::Generic { store: provider.name(), source: Box::new(AccessError { error, remedy }) }
            }
            _ => error,
        });
        Ok(Self { store: Arc::new(store?), provider })
    }

    /// Adds remedies to the errors of a stream.
    fn explained<T: 'static>(&self, stream: BoxStream<'static, Result<T>>) -> BoxStream<'static, Result<T>> {
        let provider = self.provider;
        stream.map(move |result| result.map_err(|error| provider.explain(error))).boxed()
    }
}

impl fmt::Display for AccessStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for AccessStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.store.put_opts(location, payload, options).await.map_err(|error| self.provider.explain(error))
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(location, options).await.map_err(|error| self.provider.explain(error))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.store.get_opts(location, options).await.map_err(|error| self.provider.explain(error))
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.explained(self.store.delete_stream(locations))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.explained(self.store.list(prefix))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await.map_err(|error| self.provider.explain(error))
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await.map_err(|error| self.provider.explain(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_requests_have_a_remedy() {
        let denied = || Error::PermissionDenied { path: "x".to_owned(), source: "403 Forbidden".into() };
        for (provider, variable) in [
            (Provider::S3, "AWS_ACCESS_KEY_ID"),
            (Provider::Google, "GOOGLE_SERVICE_ACCOUNT"),
            (Provider::Azure, "AZURE_STORAGE_ACCOUNT_KEY"),
        ] {
            let text = provider.explain(denied()).to_string();
            assert!(text.contains("403 Forbidden; to get access, set ") && text.contains(variable), "{text}");
        }
        let missing = Error::NotFound { path: "x".to_owned(), source: "404 Not Found".into() };
        assert!(matches!(Provider::S3.explain(missing), Error::NotFound { .. }));
    }

    #[test]
    fn an_account_of_azure_is_asked_for() {
        let built = object_store::azure::MicrosoftAzureBuilder::new().with_container_name("c").build();
        let error = AccessStore::new(Provider::Azure, built).expect_err("no account").to_string();
        assert!(error.contains("; to get access, set AZURE_STORAGE_ACCOUNT_NAME"), "{error}");
    }
}
