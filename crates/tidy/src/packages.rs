//! Packages: their names, the arrows between them, and what pure ones may not depend on.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{Finding, PURE_CRATES};

/// The arrows of the design: who builds on whom. What is reached over several arrows may be named
/// directly; any other arrow is a design change and is made here and in ARCHITECTURE.md first.
const ARROWS: [(&str, &[&str]); 12] = [
    ("lineage", &[]),
    ("expressions", &[]),
    ("workflow", &["lineage", "expressions"]),
    ("data", &["lineage"]),
    ("jobs", &["data"]),
    ("languages", &["workflow", "data", "jobs"]),
    ("protocols", &["lineage"]),
    ("engine", &["workflow", "data", "jobs", "protocols"]),
    ("simulator", &["engine", "languages"]),
    ("node", &["engine", "languages"]),
    ("cli", &["node", "simulator", "languages"]),
    ("tidy", &[]),
];

/// Crates that perform IO, read clocks, draw random numbers or run threads.
const IMPURE: [&str; 30] = [
    "async-std",
    "axum",
    "chrono",
    "crossbeam",
    "fastrand",
    "getrandom",
    "hyper",
    "indicatif",
    "libc",
    "memmap2",
    "mio",
    "nix",
    "parking_lot",
    "prometheus-client",
    "quinn",
    "rand",
    "rayon",
    "redb",
    "reqwest",
    "rusqlite",
    "rustix",
    "rustls",
    "smol",
    "socket2",
    "tempfile",
    "time",
    "tokio",
    "tokio-util",
    "tracing-subscriber",
    "ureq",
];

/// Features that make a pure dependency reach outside.
const IMPURE_FEATURES: [(&str, &[&str]); 2] =
    [("uuid", &["v1", "v4", "v6", "v7"]), ("jiff", &["tz-system", "tzdb-zoneinfo"])];

/// One package of the workspace, as cargo sees it.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder, relative to the workspace: `crates/…`.
    pub folder: String,
    /// What it is built on; what only its tests use is not here.
    pub dependencies: Vec<Dependency>,
}

/// One dependency of a package.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// The package's name.
    pub name: String,
    /// The features asked for.
    pub features: Vec<String>,
}

/// Reads the answer of `cargo metadata --no-deps --format-version 1`; the packages' folders are
/// taken relative to `workspace`.
pub fn read(metadata: &Value, workspace: &str) -> Vec<Package> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    packages.iter().map(|package| read_package(package, workspace)).collect()
}

fn read_package(package: &Value, workspace: &str) -> Package {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let manifest = text(&package["manifest_path"]);
    let folder = manifest.trim_start_matches(workspace).trim_start_matches('/');
    let shipped = |dependency: &Value| dependency["kind"].as_str() != Some("dev");
    let dependency = |dependency: &Value| Dependency {
        name: text(&dependency["name"]),
        features: list(&dependency["features"]).iter().map(text).collect(),
    };
    Package {
        name: text(&package["name"]),
        folder: folder.trim_end_matches("/Cargo.toml").to_owned(),
        dependencies: list(&package["dependencies"])
            .iter()
            .filter(|entry| shipped(entry))
            .map(dependency)
            .collect(),
    }
}

/// Every rule for the packages.
pub fn check(packages: &[Package]) -> Vec<Finding> {
    let folders: BTreeMap<&str, &str> =
        packages.iter().map(|package| (package.name.as_str(), short_folder(package))).collect();
    let rules = |package| {
        [name(package), arrows(package, &folders), impure_dependencies(package)]
            .into_iter()
            .flatten()
    };
    packages.iter().flat_map(rules).collect()
}

fn short_folder(package: &Package) -> &str {
    package.folder.strip_prefix("crates/").unwrap_or(&package.folder)
}

fn finding(package: &Package, message: String) -> Finding {
    Finding::new(&format!("{}/Cargo.toml", package.folder), 1, message)
}

/// Folders carry the plain name, packages the prefixed one; the binary is `outlast` itself.
fn name(package: &Package) -> Vec<Finding> {
    let expected = match short_folder(package) {
        "cli" => "outlast".to_owned(),
        folder => format!("outlast-{folder}"),
    };
    if package.name == expected && !short_folder(package).starts_with("outlast") {
        return Vec::new();
    }
    vec![finding(package, format!("package `{}`: name it `{expected}`", package.name))]
}

fn arrows(package: &Package, folders: &BTreeMap<&str, &str>) -> Vec<Finding> {
    let from = short_folder(package);
    let Some(reachable) = reachable_from(from) else {
        let message =
            format!("crate `{from}` has no place in the design: add it to the arrows first");
        return vec![finding(package, message)];
    };
    let ours = package.dependencies.iter().filter_map(|to| folders.get(to.name.as_str()));
    ours.filter(|to| !reachable.contains(**to))
        .map(|to| {
            let message = format!(
                "the arrow {from} → {to} is not in the design: move the code, or change the design"
            );
            finding(package, message)
        })
        .collect()
}

fn reachable_from(from: &str) -> Option<BTreeSet<&'static str>> {
    let direct = |from: &str| ARROWS.iter().find(|(name, _)| *name == from).map(|(_, to)| *to);
    let mut open = direct(from)?.to_vec();
    let mut reached = BTreeSet::new();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(direct(next).expect("every target of an arrow is listed"));
        }
    }
    Some(reached)
}

fn impure_dependencies(package: &Package) -> Vec<Finding> {
    if !PURE_CRATES.contains(&short_folder(package)) {
        return Vec::new();
    }
    package.dependencies.iter().filter_map(|dependency| impure(package, dependency)).collect()
}

fn impure(package: &Package, dependency: &Dependency) -> Option<Finding> {
    let name = dependency.name.as_str();
    if IMPURE.contains(&name) {
        let message = format!("`{name}` in a pure crate: give its work to `node`, as an output");
        return Some(finding(package, message));
    }
    let (_, features) = IMPURE_FEATURES.iter().find(|(crate_name, _)| *crate_name == name)?;
    let feature =
        dependency.features.iter().find(|feature| features.contains(&feature.as_str()))?;
    let message =
        format!("`{name}` with `{feature}` in a pure crate: it reads clocks or the system");
    Some(finding(package, message))
}

#[cfg(test)]
mod tests {
    use super::{Dependency, Package, check, read};

    fn package(name: &str, folder: &str, dependencies: &[&str]) -> Package {
        let dependency =
            |name: &&str| Dependency { name: (*name).to_owned(), features: Vec::new() };
        Package {
            name: name.to_owned(),
            folder: folder.to_owned(),
            dependencies: dependencies.iter().map(dependency).collect(),
        }
    }

    fn findings(packages: &[Package]) -> Vec<String> {
        check(packages).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn follows_the_arrows_of_the_design() {
        let lineage = package("outlast-lineage", "crates/lineage", &["blake3"]);
        let workflow = package("outlast-workflow", "crates/workflow", &["outlast-lineage"]);
        let node = package("outlast-node", "crates/node", &["outlast-lineage", "tokio"]);
        assert_eq!(findings(&[lineage, workflow, node]), Vec::<String>::new());
    }

    #[test]
    fn rejects_an_arrow_that_is_not_in_the_design() {
        let languages = package("outlast-languages", "crates/languages", &[]);
        let engine = package("outlast-engine", "crates/engine", &["outlast-languages"]);
        let [found] = &findings(&[languages, engine])[..] else { panic!("one finding") };
        assert!(found.starts_with("crates/engine/Cargo.toml:1: the arrow engine → languages"));
    }

    #[test]
    fn rejects_a_crate_without_a_place() {
        let found = findings(&[package("outlast-shapes", "crates/shapes", &[])]);
        assert!(found[0].contains("has no place in the design"));
    }

    #[test]
    fn rejects_dependencies_that_reach_outside() {
        let found = findings(&[package("outlast-engine", "crates/engine", &["tokio"])]);
        assert!(found[0].contains("`tokio` in a pure crate"));
        let mut lineage = package("outlast-lineage", "crates/lineage", &["uuid"]);
        lineage.dependencies[0].features.push("v7".to_owned());
        assert!(findings(&[lineage])[0].contains("`uuid` with `v7`"));
    }

    #[test]
    fn rejects_names_that_do_not_follow_their_folder() {
        let found = findings(&[package("engine", "crates/engine", &[])]);
        assert!(found[0].contains("name it `outlast-engine`"));
        let found = findings(&[package("outlast-cli", "crates/cli", &[])]);
        assert!(found[0].contains("name it `outlast`"));
    }

    #[test]
    fn reads_what_cargo_says_and_leaves_out_what_only_tests_use() {
        let metadata = serde_json::json!({ "packages": [{
            "name": "outlast-engine",
            "manifest_path": "/somewhere/crates/engine/Cargo.toml",
            "dependencies": [
                { "name": "tokio", "kind": "dev", "features": [] },
                { "name": "uuid", "kind": null, "features": ["v4"] },
            ],
        }]});
        let packages = read(&metadata, "/somewhere");
        assert_eq!(packages[0].folder, "crates/engine");
        assert_eq!(packages[0].dependencies.len(), 1);
        assert_eq!(packages[0].dependencies[0].features, ["v4"]);
    }
}
