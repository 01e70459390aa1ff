//! Object stores for the URLs in statements, created on first use. Credentials come from the
//! environment.

mod access;
mod web;

use std::{collections::HashMap, env, fs, str::FromStr, sync::Arc, time::Duration};

use datafusion::{
    error::{DataFusionError, Result},
    execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry},
};
use object_store::{
    ClientOptions, ObjectStore, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey, resolve_bucket_region},
    azure::{AzureConfigKey, MicrosoftAzureBuilder},
    gcp::{GoogleCloudStorageBuilder, GoogleConfigKey},
    http::HttpBuilder,
};
use tokio::{runtime::Handle, task::block_in_place};
use url::Url;

use self::{
    access::{AccessStore, Provider},
    web::WebStore,
};

/// The stores of a session: local files, and one store for each host or bucket.
#[derive(Debug, Default)]
pub struct Stores(DefaultObjectStoreRegistry);

impl ObjectStoreRegistry for Stores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.0.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.0.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        if let Ok(store) = self.0.get_store(url) {
            return Ok(store);
        }
        let store = open(url, &HashMap::new())?;
        self.0.register_store(url, Arc::clone(&store));
        Ok(store)
    }
}

/// Removes the options of object stores, like `aws.region`, from those of a table and returns them.
pub fn take_options(options: &mut HashMap<String, String>) -> HashMap<String, String> {
    options.extract_if(|key, _| ["aws.", "gcp.", "azure."].iter().any(|prefix| key.starts_with(prefix))).collect()
}

/// Returns the store of `url`. The `options` take precedence over the environment.
///
/// # Errors
/// If the scheme is unknown, or the store does not accept the settings.
pub fn open(url: &Url, options: &HashMap<String, String>) -> Result<Arc<dyn ObjectStore>> {
    Ok(match url.scheme() {
        "s3" | "s3a" => Arc::new(AccessStore::new(Provider::S3, s3(url, options)?.build())?),
        "gs" | "gcs" => {
            let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket(url)?).with_retry(retry());
            for (key, value) in settings::<GoogleConfigKey>(options, "gcp.", "google_")? {
                builder = builder.with_config(key, value);
            }
            Arc::new(AccessStore::new(Provider::Google, builder.build())?)
        }
        "az" | "azure" | "adl" | "abfs" | "abfss" => {
            let mut builder = MicrosoftAzureBuilder::from_env().with_url(url.as_str()).with_retry(retry());
            for (key, value) in settings::<AzureConfigKey>(options, "azure.", "azure_")? {
                builder = builder.with_config(key, value);
            }
            Arc::new(AccessStore::new(Provider::Azure, builder.build())?)
        }
        "http" | "https" => {
            let client = ClientOptions::new().with_allow_http(true);
            let origin = url.origin().ascii_serialization();
            let server = HttpBuilder::new().with_url(origin).with_client_options(client).with_retry(retry()).build()?;
            Arc::new(WebStore::new(server))
        }
        scheme => {
            let text =
                format!("cannot open '{url}': unknown scheme '{scheme}': expected file, s3, gs, az, http or https");
            return Err(DataFusionError::Execution(text));
        }
    })
}

fn s3(url: &Url, options: &HashMap<String, String>) -> Result<AmazonS3Builder> {
    let bucket = bucket(url)?;
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry());
    for (key, value) in settings::<AmazonS3ConfigKey>(options, "aws.", "aws_")? {
        builder = builder.with_config(key, value);
    }
    let is_set = |key| builder.get_config_value(&key).is_some();
    let has_credentials = is_set(AmazonS3ConfigKey::AccessKeyId)
        || is_set(AmazonS3ConfigKey::WebIdentityTokenFile)
        || is_set(AmazonS3ConfigKey::ContainerCredentialsRelativeUri)
        || is_set(AmazonS3ConfigKey::ContainerCredentialsFullUri)
        || is_set(AmazonS3ConfigKey::SkipSignature);
    let has_place = is_set(AmazonS3ConfigKey::Region)
        || is_set(AmazonS3ConfigKey::DefaultRegion)
        || is_set(AmazonS3ConfigKey::Endpoint);
    if !has_credentials && !is_ec2() {
        // Only EC2 provides credentials for a machine; public buckets need no signature.
        builder = builder.with_skip_signature(true);
    }
    if !has_place && let Some(region) = region_of(bucket) {
        builder = builder.with_region(region);
    }
    Ok(builder)
}

/// Asks S3 for the region of a public or private bucket.
fn region_of(bucket: &str) -> Option<String> {
    let runtime = Handle::try_current().ok()?;
    let client = ClientOptions::new();
    block_in_place(|| runtime.block_on(resolve_bucket_region(bucket, &client))).ok()
}

/// Returns whether this is an EC2 machine, which may have a role.
fn is_ec2() -> bool {
    env::var_os("AWS_METADATA_ENDPOINT").is_some()
        || fs::read_to_string("/sys/class/dmi/id/sys_vendor").is_ok_and(|vendor| vendor.starts_with("Amazon EC2"))
}

fn bucket(url: &Url) -> Result<&str> {
    url.host_str().ok_or_else(|| DataFusionError::Execution(format!("invalid URL '{url}': it has no bucket")))
}

/// Returns the options that start with `prefix`. They are renamed to keys of the store, which start
/// with `own_prefix`.
fn settings<K: FromStr>(options: &HashMap<String, String>, prefix: &str, own_prefix: &str) -> Result<Vec<(K, String)>> {
    let setting = |(key, value): (&String, &String)| {
        let name = key.strip_prefix(prefix);
        let own = name.and_then(|name| format!("{own_prefix}{name}").parse().ok());
        let own = own.ok_or_else(|| DataFusionError::Configuration(format!("unknown option '{key}' for this URL")))?;
        Ok((own, value.clone()))
    };
    options.iter().map(setting).collect()
}

/// Returns a configuration with fewer retries than a service would use, because a user is waiting.
fn retry() -> RetryConfig {
    RetryConfig { max_retries: 3, retry_timeout: Duration::from_secs(30), ..RetryConfig::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(url: &str) -> Result<Arc<dyn ObjectStore>> {
        Stores::default().get_store(&Url::parse(url).expect("a URL"))
    }

    #[test]
    fn a_store_is_made_for_each_known_scheme_and_kept() {
        for url in ["file:///a.csv", "gs://bucket/a.csv", "http://localhost:1/a.csv", "https://host/a.csv"] {
            let stores = Stores::default();
            let url = Url::parse(url).expect("a URL");
            let first = stores.get_store(&url).expect("a store");
            assert!(Arc::ptr_eq(&first, &stores.get_store(&url).expect("a store")), "{url}");
        }
        let error = get("ftp://host/a.csv").expect_err("unknown").to_string();
        assert!(error.contains("unknown scheme 'ftp'") && error.contains("s3, gs, az"), "{error}");
    }

    #[test]
    fn options_of_a_table_reach_its_store() {
        let pairs =
            [("aws.region", "eu-west-1"), ("aws.endpoint", "http://localhost:1"), ("format.has_header", "true")];
        let mut all = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let options = take_options(&mut all);
        assert_eq!((all.len(), options.len()), (1, 2));
        let url = Url::parse("s3://bucket/a.csv").expect("a URL");
        let store = s3(&url, &options).expect("a store");
        assert_eq!(store.get_config_value(&AmazonS3ConfigKey::Region), Some("eu-west-1".to_owned()));
        let wrong = HashMap::from([("aws.regoin".to_owned(), "x".to_owned())]);
        assert!(s3(&url, &wrong).expect_err("unknown").to_string().contains("'aws.regoin'"));
    }
}
