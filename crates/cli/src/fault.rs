//! The error of a run, for people: at its place in the document.

use std::io::IsTerminal;

use outlast_languages::openworkflow;
use outlast_workflow::Fault;
use serde_json::Value as Json;

use crate::input::Document;

/// The fault at its place in the document.
pub(crate) fn render(fault: &Fault, flow: &Document) -> String {
    let title = fault.title.as_deref().unwrap_or("the workflow failed");
    let message = match &fault.detail {
        Some(detail) => format!("{title}: {detail}"),
        None => title.to_owned(),
    };
    let help = format!("{} (status {})", fault.kind, fault.status);
    let pointer = fault.instance.as_deref().unwrap_or_default();
    let color = std::io::stderr().is_terminal();
    openworkflow::render_fault(&flow.file, &flow.text, pointer, &message, Some(&help), color)
}

/// A fault as a node tells it.
pub(crate) fn read(error: &Json) -> Option<Fault> {
    let text = |name: &str| error.get(name).and_then(Json::as_str).map(ToOwned::to_owned);
    let status = error.get("status").and_then(Json::as_u64)?;
    Some(Fault {
        kind: text("type")?,
        status: u16::try_from(status).ok()?,
        title: text("title"),
        detail: text("detail"),
        instance: text("instance"),
    })
}

#[cfg(test)]
mod tests {
    use outlast_expressions::value;
    use outlast_workflow::FaultKind;

    use super::*;

    #[test]
    fn a_fault_is_read_as_it_is_told() {
        let instance = Some("/do/1/two".to_owned());
        let fault = Fault { instance, ..Fault::new(FaultKind::Runtime, "it failed", "why") };
        assert_eq!(read(&value::to_json(&fault.to_value())), Some(fault));
        assert_eq!(read(&Json::Null), None);
    }
}
