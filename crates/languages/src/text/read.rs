//! Reading text into a tree, within limits.
//!
//! The parser's events are turned into nodes with an explicit stack, so no document, however deep,
//! uses the stack of the thread. Aliases are copies of what they name and count towards the limit
//! of nodes, so a document that doubles itself again and again is refused before it grows.

use std::collections::BTreeMap;

use outlast_workflow::program::{Place, Span};
use saphyr_parser::{Event, Parser, Span as Range};

use super::scalar;
use super::{Entry, Node, NodeKind, pointer_with};
use crate::Diagnostic;

/// Definitions are written by people; a longer one is an accident or an attack.
const BYTES_MAX: usize = 1 << 20;
/// Nesting deeper than this is not read by people either.
const DEPTH_MAX: usize = 128;
/// Values in a document, copies made by aliases included.
const NODES_MAX: usize = 200_000;
/// Bytes of all keys that lead to a value. Every value has its place told by them, so that the work
/// on a document is its number of values times this at most.
const PATH_MAX: usize = 4096;
/// Bytes that an index takes in a path at most.
const INDEX_MAX: usize = 7;

/// Reads a document. What can be read is returned even if there are problems.
pub(crate) fn read(text: &str) -> (Option<Node>, Vec<Diagnostic>) {
    if text.len() > BYTES_MAX {
        let message = format!("the document has {} bytes; {BYTES_MAX} are allowed", text.len());
        let help = "move data out of the definition, or split it into several workflows";
        let found = Diagnostic::error("document-too-big", Place::default(), message).help(help);
        return (None, vec![found]);
    }
    let mut reader = Reader::new(text);
    match reader.run(text) {
        Ok(()) => {}
        Err(found) => reader.problems.push(*found),
    }
    (reader.root, reader.problems)
}

/// A collection that is not closed yet.
struct Open {
    start: Range,
    anchor: usize,
    content: Content,
    height: usize,
    first_node: usize,
    /// Bytes of the path that leads here.
    path: usize,
}

enum Content {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, seen: BTreeMap<String, Span>, key: Option<(String, Span)> },
}

impl Content {
    const fn map() -> Self {
        Self::Map { entries: Vec::new(), seen: BTreeMap::new(), key: None }
    }
}

/// A finished value that aliases may name.
struct Anchored {
    node: Node,
    size: usize,
    height: usize,
}

struct Reader<'a> {
    lines: Vec<&'a str>,
    /// How many characters each line has, but for spaces at its end.
    lengths: Vec<usize>,
    open: Vec<Open>,
    anchors: BTreeMap<usize, Anchored>,
    nodes: usize,
    root: Option<Node>,
    problems: Vec<Diagnostic>,
}

type Step = Result<(), Box<Diagnostic>>;

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            lines: text.lines().collect(),
            lengths: text.lines().map(|line| line.trim_end().chars().count()).collect(),
            open: Vec::new(),
            anchors: BTreeMap::new(),
            nodes: 0,
            root: None,
            problems: Vec::new(),
        }
    }

    fn run(&mut self, text: &str) -> Step {
        let mut documents = 0;
        for event in Parser::new_from_str(text) {
            let (event, range) = event.map_err(|error| Box::new(self.syntax_error(&error)))?;
            match event {
                Event::DocumentStart(_) => {
                    documents += 1;
                    if documents > 1 {
                        return Err(self.second_document(range));
                    }
                }
                event => self.take(event, range)?,
            }
        }
        match self.root {
            Some(_) => Ok(()),
            None => Err(Box::new(
                Diagnostic::error("empty-document", Place::default(), "the document is empty")
                    .help("a workflow needs at least `document` and `do`"),
            )),
        }
    }

    fn take(&mut self, event: Event<'_>, range: Range) -> Step {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let span = self.span(range);
                if self.expects_key() {
                    return self.key(&text, span);
                }
                let kind = match scalar::resolve(&text, style, tag.as_deref()) {
                    Ok(kind) => kind,
                    Err(scalar::Refusal { message, help }) => {
                        let found = self.error("bad-value", span, message);
                        self.problems.push(match help {
                            Some(help) => found.help(help),
                            None => found,
                        });
                        NodeKind::Text(text.into_owned())
                    }
                };
                self.count(1, range)?;
                self.place(Node { kind, span }, anchor, 1, 1)
            }
            Event::SequenceStart(anchor, _) => self.enter(range, anchor, Content::List(Vec::new())),
            Event::MappingStart(anchor, _) => self.enter(range, anchor, Content::map()),
            Event::SequenceEnd | Event::MappingEnd => self.leave(range),
            Event::Alias(anchor) => self.alias(anchor, range),
            _ => Ok(()),
        }
    }

    /// Whether the next value is a key: keys are scalars, and their text is taken as it stands.
    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { content: Content::Map { key: None, .. }, .. }))
    }

    fn key(&mut self, name: &str, span: Span) -> Step {
        let Some(Open { content: Content::Map { seen, key, .. }, path, .. }) = self.open.last_mut()
        else {
            unreachable!("a key is only expected in a map");
        };
        let (first, length) = (seen.get(name).copied(), *path + 1 + name.len());
        *key = Some((name.to_owned(), span));
        if PATH_MAX < length {
            let message = format!("the keys that lead here have more than {PATH_MAX} bytes");
            let found = self.error("bad-key", span, message);
            return Err(Box::new(found.help("keys name things; put long texts into values")));
        }
        if name == "<<" {
            let place = self.place_of_key(name, span);
            let found = Diagnostic::error("merge-key", place, "`<<` does not merge in YAML 1.2")
                .help("write the keys out, or give the whole value an alias");
            self.problems.push(found);
        } else if let Some(first) = first {
            let place = self.place_of_key(name, span);
            let earlier = Place { pointer: place.pointer.clone(), span: first };
            let message = format!("the key `{name}` is given twice in one object");
            let found = Diagnostic::error("duplicate-key", place, message)
                .help("remove one of the two, or rename it")
                .related("first given here", earlier);
            self.problems.push(found);
        }
        Ok(())
    }

    fn place_of_key(&self, name: &str, span: Span) -> Place {
        Place { pointer: pointer_with(&self.pointer(), name), span }
    }

    /// Bytes of the path to the value that is read next.
    fn path(&self) -> usize {
        match self.open.last() {
            None => 0,
            Some(Open { content: Content::Map { key: Some((name, _)), .. }, path, .. }) => {
                path + 1 + name.len()
            }
            Some(open) => open.path + 1 + INDEX_MAX,
        }
    }

    fn enter(&mut self, start: Range, anchor: usize, content: Content) -> Step {
        if self.expects_key() {
            let found = self.error("bad-key", self.span(start), "a key must be text");
            return Err(Box::new(found.help("lists and objects cannot be keys in JSON")));
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(Box::new(self.too_deep(self.span(start))));
        }
        self.count(1, start)?;
        let (first_node, path) = (self.nodes, self.path());
        self.open.push(Open { start, anchor, content, height: 0, first_node, path });
        Ok(())
    }

    fn leave(&mut self, end: Range) -> Step {
        let closed = self.open.pop().expect("the parser closes only what it opened");
        let kind = match closed.content {
            Content::List(items) => NodeKind::List(items),
            Content::Map { entries, .. } => NodeKind::Map(entries),
        };
        let node = Node { kind, span: self.collection_span(closed.start, end) };
        let size = self.nodes - closed.first_node + 1;
        self.place(node, closed.anchor, size, closed.height + 1)
    }

    fn alias(&mut self, anchor: usize, range: Range) -> Step {
        if self.expects_key() {
            let found = self.error("bad-key", self.span(range), "a key must be text");
            return Err(Box::new(found.help("write the key out instead of an alias")));
        }
        let Some(anchored) = self.anchors.get(&anchor) else {
            let message = "the alias names a value that contains it";
            let found = self.error("endless-alias", self.span(range), message);
            return Err(Box::new(found.help("write the value out")));
        };
        let (node, size, height) = (anchored.node.clone(), anchored.size, anchored.height);
        self.count(size, range)?;
        if self.open.len() + height > DEPTH_MAX {
            let message = format!("aliases nest the document more than {DEPTH_MAX} levels deep");
            return Err(Box::new(self.error("too-deep", self.span(range), message)));
        }
        self.place(node, 0, size, height)
    }

    /// Puts a finished value where it belongs.
    fn place(&mut self, node: Node, anchor: usize, size: usize, height: usize) -> Step {
        if anchor != 0 {
            self.anchors.insert(anchor, Anchored { node: node.clone(), size, height });
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(open) => {
                open.height = open.height.max(height);
                match &mut open.content {
                    Content::List(items) => items.push(node),
                    Content::Map { entries, seen, key } => {
                        let (name, name_span) = key.take().expect("a value follows its key");
                        // The first of two equal keys counts; the second has been reported.
                        if !seen.contains_key(&name) {
                            seen.insert(name.clone(), name_span);
                            entries.push(Entry { name, name_span, value: node });
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, nodes: usize, range: Range) -> Step {
        self.nodes += nodes;
        if self.nodes <= NODES_MAX {
            return Ok(());
        }
        let message = format!("the document has more than {NODES_MAX} values, aliases included");
        let found = self.error("document-too-big", self.span(range), message);
        Err(Box::new(found.help("do not repeat large values by alias; pass them as input")))
    }

    /// The JSON pointer of the collection that is being read.
    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for open in self.open.iter().take(self.open.len().saturating_sub(1)) {
            pointer = match &open.content {
                Content::List(items) => pointer_with(&pointer, &items.len().to_string()),
                Content::Map { key: Some((name, _)), .. } => pointer_with(&pointer, name),
                Content::Map { key: None, .. } => pointer,
            };
        }
        pointer
    }

    fn error(&self, code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(code, Place { pointer: self.pointer(), span }, message)
    }

    fn second_document(&self, range: Range) -> Box<Diagnostic> {
        let message = "a second document begins here; a file holds one workflow";
        let found = self.error("several-documents", self.span(range), message);
        Box::new(found.help("put each workflow in a file of its own"))
    }

    fn syntax_error(&self, error: &saphyr_parser::ScanError) -> Diagnostic {
        let marker = error.marker();
        let line = self.lines.get(marker.line().wrapping_sub(1)).copied().unwrap_or("");
        let span = self.inside(marker.line(), marker.col(), marker.col() + 1);
        // The scanner is ahead of what has been read, and has a limit of its own.
        if error.info().contains("recursion limit") {
            return self.too_deep(span);
        }
        let message = format!("this is not YAML: {}", error.info());
        self.error("syntax", span, message).help(syntax_help(line, error.info()))
    }

    fn too_deep(&self, span: Span) -> Diagnostic {
        let message = format!("the document is nested more than {DEPTH_MAX} levels deep");
        self.error("too-deep", span, message).help("move inner parts to `use.functions`")
    }

    /// Where a scalar stands: as far as it goes on its first line.
    fn span(&self, range: Range) -> Span {
        let (start, end) = (range.start, range.end);
        let last =
            if end.line() == start.line() { end.col() } else { self.line_length(start.line()) };
        self.inside(start.line(), start.col(), last)
    }

    /// The part of a line from one character to another, as far as it is in the text. At the end of a
    /// text the parser stands on the line below it; what is missing there is missing behind the last
    /// character.
    fn inside(&self, line: usize, start: usize, end: usize) -> Span {
        let last = self.lines.len().max(1);
        let (line, start) = if line <= last { (line, start) } else { (last, usize::MAX) };
        let mut length = self.line_length(line);
        if length < end.max(start) {
            // Only what reaches beyond the visible text is measured: lines may be long.
            length = self.lines.get(line.wrapping_sub(1)).map_or(0, |line| line.chars().count());
        }
        let start = start.min(length);
        let span = end.min(length).saturating_sub(start).max(1);
        Span { line: number(line), column: number(start + 1), length: number(span) }
    }

    fn line_length(&self, line: usize) -> usize {
        self.lengths.get(line.wrapping_sub(1)).copied().unwrap_or(0)
    }

    /// Where a collection stands: as far as it goes on the line it begins on. Only one in brackets says
    /// where it ends; of any other that is the rest of the line.
    fn collection_span(&self, start: Range, end: Range) -> Span {
        let (line, column) = (start.start.line(), start.start.col());
        // The parser stands on a bracket, and where there is none between two characters. Where it goes
        // from the bracket is behind spaces and comments.
        let is_something = |range: &Range| range.start.index() < range.end.index();
        let brackets = [start, end].iter().all(is_something);
        let closes = brackets && end.start.line() == line;
        let last = if closes { end.start.col() + 1 } else { self.line_length(line) };
        self.inside(line, column, last)
    }
}

fn syntax_help(line: &str, info: &str) -> &'static str {
    let indentation = line.len() - line.trim_start().len();
    if line[..indentation].contains('\t') {
        return "indent with spaces; YAML does not allow tabs";
    }
    if info.contains("quote") {
        return "a quoted text ends with the quote it began with; write a single quote inside \
                single quotes as ''";
    }
    if line.contains("${") && !line.contains("'${") && !line.contains("\"${") {
        return "put expressions with `: `, `#`, `{` or quotes in them in single quotes: '${ … }'";
    }
    "look at the indentation, quotes and brackets on this line and the one before"
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
