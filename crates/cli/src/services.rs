//! How calls to services are made: the flags that `run` and `node` share.

use std::path::PathBuf;
use std::sync::Arc;

use outlast_node::Configuration;
use outlast_node::services::{Rule, Secrets};

use crate::exit::Failure;

/// How calls to services are made.
#[derive(clap::Args)]
pub(crate) struct ServiceArguments {
    /// A JSON file of secrets by name, readable by its owner only; variables named
    /// OUTLAST_SECRET_… count as well
    #[arg(long, value_name = "FILE")]
    secrets: Option<PathBuf>,
    /// Where a service type is, as name:version=URL; may be given several times
    #[arg(long = "service", value_name = "NAME:VERSION=URL")]
    services: Vec<String>,
    /// Send requests for one origin to another, as https://example.org=http://127.0.0.1:8080
    #[arg(long = "origin", value_name = "FROM=TO")]
    origins: Vec<String>,
    /// Let calls reach private networks such as 10.0.0.0/8
    #[arg(long)]
    allow_private: bool,
    /// Let calls reach a network or host that the policy denies
    #[arg(long = "allow", value_name = "NETWORK|HOST")]
    allowed: Vec<String>,
    /// Keep calls from a network or host, whatever else is allowed
    #[arg(long = "deny", value_name = "NETWORK|HOST")]
    denied: Vec<String>,
}

impl ServiceArguments {
    /// Puts them into a configuration.
    pub(crate) fn apply(&self, configuration: &mut Configuration) -> anyhow::Result<()> {
        let options = &mut configuration.services;
        options.addresses.allow_private |= self.allow_private;
        options.addresses.allow.extend(rules(&self.allowed)?);
        options.addresses.deny.extend(rules(&self.denied)?);
        for service in &self.services {
            let (name, url) = pair(service, "--service", "name:version=URL")?;
            if !name.contains(':') {
                let said = format!(
                    "--service {service}: the service type needs a version, as name:version"
                );
                return Err(Failure::usage(said).into());
            }
            options.catalog.insert(name.to_owned(), url.to_owned());
        }
        for origin in &self.origins {
            let (from, to) = pair(origin, "--origin", "FROM=TO")?;
            options.origins.insert(from, to).map_err(|error| Failure::usage(error.to_string()))?;
        }
        let secrets = Secrets::load(self.secrets.as_deref(), std::env::vars())
            .map_err(|error| Failure::usage(error.to_string()))?;
        configuration.secrets = Arc::new(secrets);
        Ok(())
    }
}

fn pair<'a>(text: &'a str, flag: &str, form: &str) -> Result<(&'a str, &'a str), Failure> {
    text.split_once('=')
        .filter(|(left, right)| !left.is_empty() && !right.is_empty())
        .ok_or_else(|| Failure::usage(format!("{flag} {text}: expected {form}")))
}

fn rules(texts: &[String]) -> Result<Vec<Rule>, Failure> {
    let parse = |text: &String| text.parse().map_err(|error| Failure::usage(format!("{error}")));
    texts.iter().map(parse).collect()
}
