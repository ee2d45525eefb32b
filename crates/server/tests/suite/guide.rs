//! The operations guide and the files of `deploy/` name every metric that there is, and none that is not.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

/// A file or folder of the repository.
fn repository(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |character: char| character.is_ascii_lowercase() || character == '_';
    let words = text.split(|character: char| !is_part(character) && !character.is_ascii_alphanumeric());
    let is_name = |word: &&str| {
        (word.starts_with("auspex_") || word.starts_with("process_")) && word.chars().all(is_part)
    };
    words.filter(is_name).map(str::to_owned).collect()
}

/// The names in quotes in all source files below a folder, but for those of PostgreSQL's channels.
fn quoted(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            quoted(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("notify.rs")
        {
            let source = std::fs::read_to_string(&path).unwrap();
            found.extend(source.split('"').filter(|text| names(text).contains(*text)).map(str::to_owned));
        }
    }
}

/// What the service exports, by its code: a name stands alone in quotes there.
fn exported() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for room in ["analyzer", "store", "service", "server"] {
        quoted(&repository(&format!("crates/{room}/src")), &mut found);
    }
    assert!(found.len() > 20, "{found:?}");
    found
}

/// What the guide's tables explain.
fn explained() -> BTreeSet<String> {
    let guide = read("docs/operations.md");
    guide.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).flat_map(names).collect()
}

#[test]
fn every_metric_is_explained_and_every_one_explained_exists() {
    assert_eq!(exported(), explained());
}

#[test]
fn the_guide_shows_the_client_s_example_as_it_is() {
    let shown = format!("```rust\n{}```\n", read("crates/client/examples/tour.rs"));
    assert!(read("docs/api.md").contains(&shown));
}

#[test]
fn dashboard_and_alerts_name_metrics_that_exist() {
    let known = exported();
    for file in ["deploy/grafana-dashboard.json", "deploy/prometheus-alerts.yaml"] {
        let text = read(file);
        let named = names(&text);
        assert!(named.len() > 5, "{file}: {named:?}");
        for name in named {
            // What a histogram is made of.
            let series = ["_bucket", "_count", "_sum"].iter().find_map(|suffix| name.strip_suffix(suffix));
            assert!(
                known.contains(&name) || series.is_some_and(|base| known.contains(base)),
                "{file}: {name}"
            );
        }
    }
}

#[test]
fn every_panel_of_the_dashboard_asks_something_of_the_chosen_prometheus() {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is taken");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title}");
        for target in targets {
            let query = target["expr"].as_str().unwrap();
            assert!(!names(query).is_empty() || query.contains("up{"), "{title}: {query}");
            assert!(is_balanced(query), "{title}: {query}");
        }
    }
    assert!(ids.len() > 5);
}

fn is_balanced(query: &str) -> bool {
    [('(', ')'), ('{', '}'), ('[', ']')]
        .iter()
        .all(|(open, close)| query.matches(*open).count() == query.matches(*close).count())
}

#[test]
fn every_alert_asks_something_and_says_what_it_means() {
    let alerts: Value = yaml_serde::from_str(&read("deploy/prometheus-alerts.yaml")).unwrap();
    let rules = alerts["groups"][0]["rules"].as_array().unwrap();
    for rule in rules {
        let name = rule["alert"].as_str().unwrap();
        let query = rule["expr"].as_str().unwrap();
        assert!(
            is_balanced(query) && (!names(query).is_empty() || query.starts_with("up{")),
            "{name}: {query}"
        );
        assert!(["page", "warn"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{name}");
        assert!(rule["annotations"]["summary"].is_string(), "{name}");
    }
    assert!(rules.len() > 5);
}

#[test]
fn alerts_name_transactions_that_exist() {
    let alerts = read("deploy/prometheus-alerts.yaml");
    let (_, named) = alerts.split_once("name=~\"").unwrap();
    let mut source = String::new();
    append_sources(&repository("crates/service/src"), &mut source);
    for name in named.split('"').next().unwrap().split('|') {
        let quoted =
            name.strip_suffix(".*").map_or_else(|| format!("\"{name}\""), |start| format!("\"{start}"));
        assert!(source.contains(&quoted), "{name}");
    }
}

fn append_sources(folder: &Path, text: &mut String) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            append_sources(&path, text);
        } else {
            text.push_str(&std::fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

#[test]
fn the_composition_uses_what_it_declares_and_is_open_to_this_machine_alone() {
    let composition: Value = yaml_serde::from_str(&read("deploy/compose.yaml")).unwrap();
    let services = composition["services"].as_object().unwrap();
    for (name, service) in services {
        for volume in service["volumes"].as_array().unwrap() {
            let volume = volume.as_str().unwrap().split(':').next().unwrap();
            assert!(composition["volumes"].as_object().unwrap().contains_key(volume), "{name}: {volume}");
        }
        for port in service["ports"].as_array().into_iter().flatten() {
            assert!(port.as_str().unwrap().starts_with("127.0.0.1:"), "{name}: {port}");
        }
        for needed in service["depends_on"].as_object().into_iter().flatten() {
            assert!(services.contains_key(needed.0), "{name}: {}", needed.0);
        }
    }
    let build = &services["auspex"]["build"];
    assert!(repository("deploy").join(build["context"].as_str().unwrap()).join("Cargo.toml").exists());
    assert!(repository(build["dockerfile"].as_str().unwrap()).exists());
}

#[test]
fn every_setting_that_a_file_of_deploy_names_exists() {
    let known = auspex_server::config::Config::from_environment(std::iter::empty()).unwrap().effective;
    for file in ["compose.yaml", "Dockerfile", "auspex.service", "README.md"] {
        let text = read(&format!("deploy/{file}"));
        let words = text.split(|character: char| !character.is_ascii_uppercase() && character != '_');
        for name in words.filter_map(|word| word.strip_prefix("AUSPEX_")) {
            let name = name.to_lowercase();
            assert!(known.iter().any(|setting| setting.name == name), "{file}: {name}");
        }
    }
}
