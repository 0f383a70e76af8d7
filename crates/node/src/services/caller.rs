//! Makes calls: over HTTP, or to the services of the catalog.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use outlast_expressions::Value;
use outlast_lineage::Time;
use outlast_workflow::program::HttpOutput;
use outlast_workflow::{Answer, Fault, FaultKind, Request, Seen, Sent, Target, judge};
use reqwest::Client;

use super::address::AddressPolicy;
use super::catalog::{Catalog, not_offered};
use super::exchange::Exchange;
use super::origin::OriginMap;
use super::resolver::Resolver;
use super::reveal::{Plain, prepare};
use super::secrets::SecretSource;

/// How long a connection is kept without a call.
const IDLE_MAX: Duration = Duration::from_secs(15);

/// How calls are made.
#[derive(Clone)]
pub struct Options {
    /// Which addresses may be reached.
    pub addresses: AddressPolicy,
    /// Which origin stands for which.
    pub origins: OriginMap,
    /// Service types (`name:version`) and the endpoints they are posted to.
    pub catalog: BTreeMap<String, String>,
    /// Host names that are not looked up, as in a hosts file. The policy holds for them too.
    pub hosts: BTreeMap<String, Vec<IpAddr>>,
    /// How long a connection may take to stand. What is not connected by then was never sent.
    pub connect_timeout: Duration,
    /// How long a call without a deadline may take.
    pub call_timeout: Duration,
    /// The largest answer that is read.
    pub answer_bytes_max: usize,
    /// Tells the time deadlines are compared with: the clock that set them.
    pub clock: Arc<dyn Fn() -> Time + Send + Sync>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            addresses: AddressPolicy::default(),
            origins: OriginMap::default(),
            catalog: BTreeMap::new(),
            hosts: BTreeMap::new(),
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(300),
            answer_bytes_max: 4 << 20,
            clock: Arc::new(system_time),
        }
    }
}

/// Makes calls. Connections are kept and shared by all of them.
pub struct Caller {
    options: Options,
    addresses: Arc<AddressPolicy>,
    catalog: Arc<dyn Catalog>,
    /// Made for the first call: a node that calls nobody needs no certificates.
    client: OnceLock<Result<Client, Fault>>,
}

impl Caller {
    /// A caller with these options and in-process services.
    pub fn new(options: Options, catalog: Arc<dyn Catalog>) -> Self {
        let addresses = Arc::new(options.addresses.clone());
        Self { options, addresses, catalog, client: OnceLock::new() }
    }

    /// Whether this node can call a service type.
    pub fn offers(&self, name: &str, version: &str) -> bool {
        self.endpoint_of(name, version).is_some() || self.catalog.offers(name, version)
    }

    /// Answers a call at once if that needs neither time nor IO.
    pub fn call_inline(&self, request: &Request) -> Option<Answer> {
        match &request.target {
            Target::Catalog { name, version, arguments }
                if self.endpoint_of(name, version).is_none() =>
            {
                if !self.catalog.offers(name, version) {
                    return Some(Answer::Failed(not_offered(name, version)));
                }
                self.catalog.call_inline(name, version, arguments, &request.key_text())
            }
            _ => None,
        }
    }

    /// Makes a call and says what became of it. Ends by the request's deadline at the latest.
    pub async fn call(&self, request: Request, secrets: &dyn SecretSource) -> Answer {
        let Some(wait) = self.time_left(&request) else {
            let detail = "its time was over before it was sent";
            return Answer::Failed(Fault::new(FaultKind::Timeout, "Call was not made", detail));
        };
        match &request.target {
            Target::Http { method, uri, headers, body, output, redirect, authentication } => {
                let sent = Sent { method, uri, headers, output: *output, redirect: *redirect };
                let plain = Plain {
                    method,
                    uri,
                    headers,
                    body,
                    json_body: false,
                    authentication: authentication.as_ref(),
                };
                self.call_http(&request, &sent, &plain, secrets, wait).await
            }
            Target::Catalog { name, version, arguments } => match self.endpoint_of(name, version) {
                Some(endpoint) => self.post(&request, endpoint, arguments, secrets, wait).await,
                None => self.call_catalog(&request, name, version, arguments, wait).await,
            },
        }
    }

    async fn call_catalog(
        &self,
        request: &Request,
        name: &str,
        version: &str,
        arguments: &Value,
        wait: Duration,
    ) -> Answer {
        if !self.catalog.offers(name, version) {
            return Answer::Failed(not_offered(name, version));
        }
        let key = request.key_text();
        let calling = self.catalog.call(name, version, arguments, &key);
        tokio::time::timeout(wait, calling).await.unwrap_or_else(|_| {
            let detail = format!("`{name}:{version}` did not answer within {wait:?}");
            Answer::Unknown(Fault::new(
                FaultKind::Timeout,
                "Service did not answer in time",
                detail,
            ))
        })
    }

    /// Calls a service type at the endpoint the deployment gives for it.
    async fn post(
        &self,
        request: &Request,
        endpoint: &str,
        arguments: &Value,
        secrets: &dyn SecretSource,
        wait: Duration,
    ) -> Answer {
        let sent = Sent {
            method: "POST",
            uri: endpoint,
            headers: &[],
            output: HttpOutput::Content,
            redirect: false,
        };
        let plain = Plain {
            method: "POST",
            uri: endpoint,
            headers: &[],
            body: arguments,
            json_body: true,
            authentication: None,
        };
        self.call_http(request, &sent, &plain, secrets, wait).await
    }

    async fn call_http(
        &self,
        request: &Request,
        sent: &Sent<'_>,
        plain: &Plain<'_>,
        secrets: &dyn SecretSource,
        wait: Duration,
    ) -> Answer {
        let client = match self.client() {
            Ok(client) => client,
            Err(fault) => return Answer::Failed(fault.clone()),
        };
        let (outgoing, revealed) = match prepare(request, plain, secrets) {
            Ok(prepared) => prepared,
            Err(fault) => return Answer::Failed(fault),
        };
        let exchange = Exchange {
            client,
            policy: &self.addresses,
            origins: &self.options.origins,
            answer_bytes_max: self.options.answer_bytes_max,
            follow: sent.redirect,
        };
        let Ok(ended) = tokio::time::timeout(wait, exchange.run(outgoing)).await else {
            return judge(sent, Seen::TimedOut { after: wait }, &revealed);
        };
        let answer = match ended.seen {
            Ok(seen) => judge(sent, seen, &revealed),
            Err(fault) => Answer::Failed(masked(fault, &revealed)),
        };
        match answer {
            // Whoever sent us elsewhere for the result had acted already.
            Answer::Failed(fault) if ended.acted => Answer::Unknown(fault),
            answer => answer,
        }
    }

    fn endpoint_of(&self, name: &str, version: &str) -> Option<&str> {
        if self.options.catalog.is_empty() {
            return None;
        }
        self.options.catalog.get(&format!("{name}:{version}")).map(String::as_str)
    }

    /// How long a call may take; nothing if its time is over.
    fn time_left(&self, request: &Request) -> Option<Duration> {
        let Some(deadline) = request.deadline else { return Some(self.options.call_timeout) };
        let left = deadline.since((self.options.clock)());
        (!left.is_zero()).then_some(left)
    }

    fn client(&self) -> Result<&Client, &Fault> {
        self.client.get_or_init(|| build_client(&self.options, &self.addresses)).as_ref()
    }
}

fn build_client(options: &Options, addresses: &Arc<AddressPolicy>) -> Result<Client, Fault> {
    // Whoever installed a provider first has installed the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = || {
        Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .connect_timeout(options.connect_timeout)
            .tcp_nodelay(true)
            // Shorter than most servers keep a silent connection: a call on one that was just closed
            // by the other side would have an unknown outcome.
            .pool_idle_timeout(IDLE_MAX)
            .dns_resolver(Resolver::new(Arc::clone(addresses), options.hosts.clone()))
    };
    builder()
        .build()
        // A machine without certificates can still make plain calls; secure ones fail and say why.
        .or_else(|_| builder().tls_certs_only([]).build())
        .map_err(|error| Fault::new(FaultKind::Configuration, "No HTTP client", error.to_string()))
}

fn masked(fault: Fault, revealed: &outlast_workflow::secret::Revealed) -> Fault {
    Fault { detail: fault.detail.map(|detail| revealed.mask(&detail).into_owned()), ..fault }
}

fn system_time() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}
