//! Who a call says it is: credentials, and what expressions see of them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use outlast_expressions::{Value, value};

use super::Machine;
use super::evaluation::Sight;
use crate::execution::Branch;
use crate::program::{Authentication, Kind, Secretive, Service, Template};
use crate::{Fault, FaultKind, ResolvedAuthentication, scalar_text, secret};

impl Machine<'_> {
    pub(super) fn authentication(
        &self,
        branch: &Branch,
        given: &Authentication,
        input: &Value,
    ) -> Result<ResolvedAuthentication, Fault> {
        let text = |secretive: &Secretive| self.credential(branch, secretive, input);
        Ok(match given {
            Authentication::Basic { username, password } => {
                ResolvedAuthentication::Basic(text(username)?, text(password)?)
            }
            Authentication::Bearer(token) => ResolvedAuthentication::Bearer(text(token)?),
            Authentication::Digest { username, password } => {
                ResolvedAuthentication::Digest(text(username)?, text(password)?)
            }
        })
    }

    fn credential(
        &self,
        branch: &Branch,
        secretive: &Secretive,
        input: &Value,
    ) -> Result<String, Fault> {
        match secretive {
            Secretive::Secret(name, field) => {
                Ok(secret::stand_in(&self.execution.salt, name, field))
            }
            Secretive::Given(template) => {
                let sight = Sight::from_top(branch, input.clone());
                let given = self.evaluate_template_here(branch, template, &sight)?;
                scalar_text(&given).ok_or_else(|| {
                    let detail = "user names, passwords and tokens are texts";
                    Fault::new(FaultKind::Authentication, "the credential is not a text", detail)
                })
            }
        }
    }

    /// `$authorization` of the innermost task of those that are visible: null if it has none.
    pub(super) fn describe_authorization(&self, branch: &Branch, sight: &Sight<'_>) -> Value {
        let frame = sight.depth.checked_sub(1).map(|top| &branch.frames()[top]);
        let authentication = frame.and_then(|frame| match &self.program.task(frame.task).kind {
            Kind::Call { service: Service::Http { authentication, .. }, .. } => {
                authentication.as_ref()
            }
            _ => None,
        });
        let (Some(frame), Some(given)) = (frame, authentication) else { return Value::default() };
        if names_itself(given) {
            return Value::default();
        }
        match self.authentication(branch, given, &self.value(frame.input())) {
            Ok(resolved) => describe(&resolved),
            Err(_) => Value::default(),
        }
    }
}

/// Whether credentials are computed from what they authorize.
fn names_itself(given: &Authentication) -> bool {
    let uses = |secretive: &Secretive| match secretive {
        Secretive::Given(Template::Computed(expression)) => {
            expression.filter.uses().iter().any(|name| name == "authorization")
        }
        _ => false,
    };
    match given {
        Authentication::Basic { username, password }
        | Authentication::Digest { username, password } => uses(username) || uses(password),
        Authentication::Bearer(token) => uses(token),
    }
}

fn describe(resolved: &ResolvedAuthentication) -> Value {
    let (scheme, parameter) = match resolved {
        // A stand-in cannot be encoded: the secret would never be put in its place.
        ResolvedAuthentication::Basic(username, password) => {
            let text = format!("{username}:{password}");
            let plain = secret::find_stand_ins(&text).is_empty();
            ("Basic", plain.then(|| STANDARD.encode(text)))
        }
        ResolvedAuthentication::Bearer(token) => ("Bearer", Some(token.clone())),
        // It follows from the provider's challenge.
        ResolvedAuthentication::Digest(..) => ("Digest", None),
    };
    let parameter = parameter.map_or_else(Value::default, |text| value::string(&text));
    value::object([("scheme", value::string(scheme)), ("parameter", parameter)])
}
