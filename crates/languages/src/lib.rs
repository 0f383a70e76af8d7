//! Open Workflow documents: text to Program, with diagnostics that point.
