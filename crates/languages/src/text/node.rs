//! The tree of a document, and cursors that know the JSON pointer they stand at.

use outlast_workflow::program::{Place, Span};
use serde_json::{Map, Number, Value as Json};

/// A value of a document and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    /// The value.
    pub(crate) kind: NodeKind,
    /// Where it stands.
    pub(crate) span: Span,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NodeKind {
    Null,
    Boolean(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) name_span: Span,
    pub(crate) value: Node,
}

impl Node {
    /// The value as JSON.
    pub(crate) fn to_json(&self) -> Json {
        match &self.kind {
            NodeKind::Null => Json::Null,
            NodeKind::Boolean(value) => Json::Bool(*value),
            NodeKind::Number(number) => Json::Number(number.clone()),
            NodeKind::Text(text) => Json::String(text.clone()),
            NodeKind::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            NodeKind::Map(entries) => {
                let members = entries.iter();
                let members = members.map(|entry| (entry.name.clone(), entry.value.to_json()));
                Json::Object(members.collect::<Map<_, _>>())
            }
        }
    }

    /// What the value is, in words that fit "must be …, not …".
    pub(crate) const fn describe(&self) -> &'static str {
        match &self.kind {
            NodeKind::Null => "nothing",
            NodeKind::Boolean(_) => "a boolean",
            NodeKind::Number(_) => "a number",
            NodeKind::Text(_) => "text",
            NodeKind::List(_) => "a list",
            NodeKind::Map(_) => "an object",
        }
    }
}

/// A JSON pointer one step further.
pub(crate) fn pointer_with(pointer: &str, step: &str) -> String {
    format!("{pointer}/{}", step.replace('~', "~0").replace('/', "~1"))
}

/// A value, the JSON pointer to it, and the key it stands under.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    pub(crate) node: &'a Node,
    pub(crate) pointer: String,
    pub(crate) key: Option<&'a Entry>,
}

impl<'a> Cursor<'a> {
    /// The whole document.
    pub(crate) const fn root(node: &'a Node) -> Self {
        Self { node, pointer: String::new(), key: None }
    }

    /// Where the value stands.
    pub(crate) fn place(&self) -> Place {
        Place { pointer: self.pointer.clone(), span: self.node.span }
    }

    /// Where the key stands that leads to the value; the value itself in a list.
    pub(crate) fn key_place(&self) -> Place {
        let span = self.key.map_or(self.node.span, |entry| entry.name_span);
        Place { pointer: self.pointer.clone(), span }
    }

    /// The key that leads to the value.
    pub(crate) fn name(&self) -> &'a str {
        self.key.map_or("", |entry| entry.name.as_str())
    }

    /// The value under a key.
    pub(crate) fn get(&self, name: &str) -> Option<Self> {
        let entry = self.entry(name)?;
        let pointer = pointer_with(&self.pointer, name);
        Some(Self { node: &entry.value, pointer, key: Some(entry) })
    }

    /// Whether there is a key.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.entry(name).is_some()
    }

    fn entry(&self, name: &str) -> Option<&'a Entry> {
        match &self.node.kind {
            NodeKind::Map(entries) => entries.iter().find(|entry| entry.name == name),
            _ => None,
        }
    }

    /// All values under keys; none unless it is an object.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Self> + use<'a> {
        let entries: &'a [Entry] = match &self.node.kind {
            NodeKind::Map(entries) => entries,
            _ => &[],
        };
        let pointer = self.pointer.clone();
        entries.iter().map(move |entry| Self {
            node: &entry.value,
            pointer: pointer_with(&pointer, &entry.name),
            key: Some(entry),
        })
    }

    /// All items; none unless it is a list.
    pub(crate) fn items(&self) -> impl Iterator<Item = Self> + use<'a> {
        let items: &'a [Node] = match &self.node.kind {
            NodeKind::List(items) => items,
            _ => &[],
        };
        let pointer = self.pointer.clone();
        items.iter().enumerate().map(move |(index, node)| Self {
            node,
            pointer: pointer_with(&pointer, &index.to_string()),
            key: None,
        })
    }

    /// The one member of each item of a list of one-member objects: task lists, cases, extensions.
    /// Items of any other form are left out; the structure check has reported them.
    pub(crate) fn named_items(&self) -> impl Iterator<Item = Self> + use<'a> {
        self.items().filter_map(|item| {
            let mut entries = item.entries();
            entries.next().filter(|_| entries.next().is_none())
        })
    }

    /// The text, if it is text.
    pub(crate) fn text(&self) -> Option<&'a str> {
        match &self.node.kind {
            NodeKind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text under a key.
    pub(crate) fn text_of(&self, name: &str) -> Option<&'a str> {
        self.get(name).and_then(|value| value.text())
    }

    /// The boolean, if it is one.
    pub(crate) const fn boolean(&self) -> Option<bool> {
        match self.node.kind {
            NodeKind::Boolean(value) => Some(value),
            _ => None,
        }
    }

    /// The whole number, if it is one and not negative.
    pub(crate) fn count(&self) -> Option<u64> {
        match &self.node.kind {
            NodeKind::Number(number) => number.as_u64(),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub(crate) fn number(&self) -> Option<f64> {
        match &self.node.kind {
            NodeKind::Number(number) => number.as_f64(),
            _ => None,
        }
    }

    /// Whether it is an object.
    pub(crate) const fn is_map(&self) -> bool {
        matches!(self.node.kind, NodeKind::Map(_))
    }

    /// The value that a JSON pointer leads to, or the last one on the way that exists.
    pub(crate) fn follow(self, pointer: &str) -> Self {
        let mut cursor = self;
        for step in pointer.split('/').skip(1) {
            let name = step.replace("~1", "/").replace("~0", "~");
            let next = match &cursor.node.kind {
                NodeKind::List(_) => {
                    name.parse::<usize>().ok().and_then(|index| cursor.items().nth(index))
                }
                _ => cursor.get(&name),
            };
            match next {
                Some(next) => cursor = next,
                None => break,
            }
        }
        cursor
    }
}
