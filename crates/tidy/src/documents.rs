//! Documents: the README stays short, links lead somewhere, every page is on the map, and nothing
//! names a place of one machine.

use crate::tree::File;
use crate::{Finding, Source};

/// The README is a door, not a house.
const README_LINES_MAX: usize = 99;

/// Where pages are looked for first.
const MAPS: [&str; 2] = ["README.md", "docs/README.md"];

/// The one place packages come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Folders at the root of a file system whose contents exist on one machine only.
const MACHINE_FOLDERS: [&str; 5] = ["work", "home", "root", "Users", "tmp"];

/// What the workspace must have at its root.
const REQUIRED: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "STYLE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "Cargo.lock",
    "docs/README.md",
];

/// Every rule for the documents among all text files of the workspace.
pub fn check(files: &[File]) -> Vec<Finding> {
    let mut findings =
        [required(files), readme(files), on_the_map(files), protocols(files)].concat();
    for file in files {
        findings.extend(machine_paths(file));
        findings.extend(registries(file));
        findings.extend(broken_links(file, files));
    }
    findings
}

fn required(files: &[File]) -> Vec<Finding> {
    let missing = |path: &&&str| !files.iter().any(|file| file.path == ***path);
    let finding = |path: &&str| Finding::new(path, 1, "missing: the house has this page");
    REQUIRED.iter().filter(missing).map(finding).collect()
}

fn readme(files: &[File]) -> Vec<Finding> {
    let Some(readme) = files.iter().find(|file| file.path == "README.md") else {
        return Vec::new();
    };
    let lines = readme.text.lines().count();
    let mut findings = Vec::new();
    if README_LINES_MAX < lines {
        let message = format!("{lines} lines, {README_LINES_MAX} at most: move the rest to docs/");
        findings.push(Finding::new("README.md", README_LINES_MAX + 1, message));
    }
    // The continuous build takes its commands from these lines, so they cannot go stale.
    for command in ["cargo run --release -- run examples/", "cargo test --workspace"] {
        if readme.text.lines().filter(|line| line.starts_with(command)).count() != 1 {
            let message = format!("exactly one line begins with `{command}`: .ci/run reads it");
            findings.push(Finding::new("README.md", 1, message));
        }
    }
    findings
}

/// Every page under docs/ can be found from a map.
fn on_the_map(files: &[File]) -> Vec<Finding> {
    let linked: Vec<String> = files
        .iter()
        .filter(|file| MAPS.contains(&file.path.as_str()))
        .flat_map(|map| links(map).into_iter().map(|(_, target)| resolve(&map.path, &target)))
        .collect();
    let page = |file: &&File| file.path.starts_with("docs/") && file.path.ends_with(".md");
    files
        .iter()
        .filter(page)
        .filter(|file| !MAPS.contains(&file.path.as_str()) && !linked.contains(&file.path))
        .map(|file| {
            Finding::new(&file.path, 1, "nobody finds this page: link it from docs/README.md")
        })
        .collect()
}

/// Every protocol folder has its page, and the page speaks of every timer and message.
fn protocols(files: &[File]) -> Vec<Finding> {
    files
        .iter()
        .filter_map(|file| Some((file, protocol_of(file)?)))
        .flat_map(|(file, name)| {
            let page_path = format!("docs/protocols/{name}.md");
            match files.iter().find(|page| page.path == page_path) {
                Some(page) => unmentioned(file, page),
                None => {
                    let message = format!("no page: say how it works in {page_path}");
                    vec![Finding::new(&file.path, 1, message)]
                }
            }
        })
        .collect()
}

/// The protocol a file belongs to: the name of its folder.
fn protocol_of(file: &File) -> Option<&str> {
    let inside = file.path.strip_prefix("crates/protocols/src/")?;
    let (name, _) = inside.split_once('/').filter(|_| inside.ends_with(".rs"))?;
    Some(name)
}

fn unmentioned(file: &File, page: &File) -> Vec<Finding> {
    let source = Source::new(&file.path, &file.text);
    let mut findings = Vec::new();
    let mut inside = false;
    for (line, code) in source.code_lines() {
        let begins =
            ["enum Timer {", "enum Message {"].iter().any(|opening| code.ends_with(opening));
        inside = begins || (inside && code != "}");
        // Variants stand one level in; their fields further in, in formatted code.
        let variant = code.strip_prefix("    ").filter(|rest| rest.starts_with(char::is_uppercase));
        let name = variant.and_then(|rest| rest.split(|end: char| !end.is_alphanumeric()).next());
        if let Some(name) = name.filter(|name| inside && !page.text.contains(name)) {
            let message =
                format!("`{name}` is not on its page: say what it means in {}", page.path);
            findings.push(Finding::new(&file.path, line, message));
        }
    }
    findings
}

/// Nothing names a path that exists on one machine only.
fn machine_paths(file: &File) -> Vec<Finding> {
    let numbered = file.text.lines().enumerate();
    numbered
        .filter_map(|(index, line)| {
            let folder = MACHINE_FOLDERS.iter().find(|folder| begins_a_path(line, folder))?;
            let message = format!("`/{folder}/…` is a place of one machine: use a relative path");
            Some(Finding::new(&file.path, index + 1, message))
        })
        .collect()
}

/// Whether the path stands there from its beginning: `/do/0/work/…` is a pointer, not a place.
fn begins_a_path(line: &str, folder: &str) -> bool {
    line.match_indices(&format!("/{folder}/")).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        before.is_none_or(|character| character.is_whitespace() || "\"'`(=:@".contains(character))
    })
}

/// Packages come from the public index, whatever this or that machine mirrors.
fn registries(file: &File) -> Vec<Finding> {
    let lock = file.path.ends_with("Cargo.lock");
    let manifest = file.path.ends_with("Cargo.toml") || file.path.contains(".cargo/");
    let foreign = |line: &str| {
        let source = line.strip_prefix("source = \"").map(|rest| rest.trim_end_matches('"'));
        let elsewhere = source.is_some_and(|source| source != REGISTRY);
        let key =
            ["[source.", "[registries.", "replace-with"].iter().any(|key| line.starts_with(key));
        (lock && elsewhere) || (manifest && (key || line.contains("registry = ")))
    };
    let numbered = file.text.lines().enumerate();
    numbered
        .filter(|(_, line)| foreign(line.trim()))
        .map(|(index, _)| {
            let message = "another registry: packages come from the public index only";
            Finding::new(&file.path, index + 1, message)
        })
        .collect()
}

/// Relative links of a page lead to files that are there.
fn broken_links(file: &File, files: &[File]) -> Vec<Finding> {
    if !file.path.ends_with(".md") {
        return Vec::new();
    }
    let exists = |path: &str| {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    };
    links(file)
        .into_iter()
        .filter(|(_, target)| !target.contains("://") && !target.starts_with('#'))
        .filter(|(_, target)| !exists(&resolve(&file.path, target)))
        .map(|(line, target)| {
            Finding::new(&file.path, line, format!("`{target}` leads nowhere: mend the link"))
        })
        .collect()
}

/// The targets of a page's Markdown links, with their lines; code blocks have none.
fn links(file: &File) -> Vec<(usize, String)> {
    let mut in_code = false;
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code {
            continue;
        }
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        found.extend(targets.map(|(target, _)| (index + 1, target.to_owned())));
    }
    found
}

/// The path a link leads to, relative to the workspace and without its fragment.
fn resolve(page: &str, target: &str) -> String {
    let target = target.split('#').next().unwrap_or_default();
    if target.is_empty() {
        return page.to_owned();
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::{REQUIRED, check, resolve};
    use crate::tree::File;

    const README: &str = "\
[map](docs/README.md)\ncargo run --release -- run examples/a.yaml\ncargo test --workspace\n";

    fn house(changes: &[(&str, &str)]) -> Vec<File> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let mut files: Vec<File> = REQUIRED
            .iter()
            .map(|path| file(path, if *path == "README.md" { README } else { "" }))
            .collect();
        for (path, text) in changes {
            files.retain(|known| known.path != *path);
            files.push(file(path, text));
        }
        files
    }

    fn assert_bites(changes: &[(&str, &str)], expected: &str) {
        let found: Vec<String> = check(&house(changes)).iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|finding| finding.contains(expected)), "{expected}: {found:?}");
    }

    #[test]
    fn passes_a_house_in_order() {
        assert_eq!(check(&house(&[])), []);
    }

    #[test]
    fn asks_for_every_page_of_the_house() {
        let mut files = house(&[]);
        files.retain(|file| file.path != "CHANGELOG.md");
        assert_eq!(
            check(&files)[0].to_string(),
            "CHANGELOG.md:1: missing: the house has this page"
        );
    }

    #[test]
    fn keeps_the_readme_short_and_its_two_commands_in_it() {
        let long = README.to_owned() + &"\n".repeat(97);
        assert_bites(&[("README.md", &long)], "README.md:100: 100 lines, 99 at most");
        assert_bites(&[("README.md", "cargo test --workspace\n")], "begins with `cargo run");
        let twice = README.to_owned() + "cargo test --workspace --release\n";
        assert_bites(&[("README.md", &twice)], "begins with `cargo test");
    }

    #[test]
    fn asks_for_a_link_to_every_page() {
        assert_bites(&[("docs/api.md", "")], "docs/api.md:1: nobody finds this page");
        let linked = [("docs/api.md", ""), ("docs/README.md", "[api](api.md)")];
        assert_eq!(check(&house(&linked)), []);
    }

    #[test]
    fn rejects_a_link_that_leads_nowhere() {
        assert_bites(
            &[("STYLE.md", "a\n[b](gone.md#c)\n")],
            "STYLE.md:2: `gone.md#c` leads nowhere",
        );
        let code = "```\n[b](gone.md)\n```\n[c](docs/) [d](https://example.com) [e](#here)\n";
        assert_eq!(check(&house(&[("STYLE.md", code)])), []);
    }

    #[test]
    fn asks_for_a_page_about_every_protocol() {
        let found = "mod.rs:1: no page: say how it works in docs/protocols/ring.md";
        assert_bites(&[("crates/protocols/src/ring/mod.rs", "")], found);
    }

    #[test]
    fn asks_for_every_timer_and_message_on_the_page() {
        let code = "pub enum Timer {\n    /// Late.\n    Deadline,\n}\n\
                    enum Message {\n    Vote { round: Round },\n    Voted(\n        Vote,\n    ),\n}\n";
        let page = |text: &'static str| {
            [
                ("crates/protocols/src/ring/mod.rs", code),
                ("docs/protocols/ring.md", text),
                ("docs/README.md", "[ring](protocols/ring.md)"),
            ]
        };
        assert_bites(&page("`Deadline`, `Vote`"), "mod.rs:7: `Voted` is not on its page");
        assert_bites(&page("`Vote`/`Voted`"), "mod.rs:3: `Deadline` is not on its page");
        assert_eq!(check(&house(&page("`Deadline`, `Vote`/`Voted`"))), []);
    }

    #[test]
    fn rejects_places_of_one_machine() {
        let path = ["/ho", "me/me/flow.yaml"].concat();
        assert_bites(&[("examples/a.yaml", &format!("a: {path}\n"))], "examples/a.yaml:1: `/ho");
        let pointer = ["at /do/0/wo", "rk/fork"].concat();
        assert_eq!(check(&house(&[("docs/README.md", &pointer)])), []);
    }

    #[test]
    fn rejects_other_registries() {
        let lock = "[[package]]\nsource = \"registry+https://mirror.example/index\"\n";
        assert_bites(&[("Cargo.lock", lock)], "Cargo.lock:2: another registry");
        assert_bites(
            &[(".cargo/config.toml", "[source.mirror]\n")],
            "config.toml:1: another registry",
        );
        let public = format!("source = \"{}\"\n", super::REGISTRY);
        assert_eq!(check(&house(&[("Cargo.lock", &public)])), []);
    }

    #[test]
    fn resolves_links_from_the_page_they_stand_on() {
        assert_eq!(resolve("docs/decisions/a.md", "../api.md#start"), "docs/api.md");
        assert_eq!(resolve("README.md", "./docs/"), "docs");
    }
}
