//! Extensions of a session that SQL does not know.

/// Makes a `Copy` type an extension of a session's options that Rust programs insert, and that has no
/// option in SQL.
///
/// ```
/// use annulus_datafusion::rust_options;
/// use datafusion::prelude::SessionConfig;
///
/// #[derive(Clone, Copy, Debug)]
/// struct Limit(usize);
///
/// rust_options!(Limit, "my_limit");
///
/// let config = SessionConfig::new().with_option_extension(Limit(7));
/// assert_eq!(config.options().extensions.get::<Limit>().map(|limit| limit.0), Some(7));
/// ```
#[macro_export]
macro_rules! rust_options {
    ($type:ty, $prefix:literal) => {
        impl ::datafusion::config::ConfigExtension for $type {
            const PREFIX: &'static str = $prefix;
        }

        impl ::datafusion::config::ExtensionOptions for $type {
            fn as_any(&self) -> &dyn ::std::any::Any {
                self
            }

            fn as_any_mut(&mut self) -> &mut dyn ::std::any::Any {
                self
            }

            fn cloned(&self) -> Box<dyn ::datafusion::config::ExtensionOptions> {
                Box::new(*self)
            }

            fn set(&mut self, key: &str, _: &str) -> ::datafusion::error::Result<()> {
                ::datafusion::common::config_err!("annulus: unknown option '{}.{key}'", $prefix)
            }

            fn entries(&self) -> Vec<::datafusion::config::ConfigEntry> {
                Vec::new()
            }
        }
    };
}
