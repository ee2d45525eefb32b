//! The guides and the files of `deploy/` say what is so: metrics, settings, code that runs.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Backend, Stage as _};

use crate::app::App;
use crate::scripted_analyzer::send_event;

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

/// Its lines stand in the example in this order, which is compiled with the tests. The first says what the manifest needs.
#[test]
fn the_readme_shows_lines_of_the_client_s_example() {
    let (readme, example) = (read("README.md"), read("crates/client/examples/verdict.rs"));
    let block = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let (manifest, shown) = block.and_then(|block| block.split_once('\n')).expect("the README has Rust");
    let mut compiled = example.lines().map(str::trim);
    for line in shown.lines().map(str::trim).filter(|line| !line.is_empty()) {
        assert!(compiled.any(|compiled| compiled == line), "{line}");
    }
    let manifest: toml::Table = manifest.trim_start_matches("// Cargo.toml: ").parse().unwrap();
    let path = manifest["auspex-client"]["path"].as_str().unwrap();
    assert!(repository(path.strip_prefix("auspex/").unwrap()).join("Cargo.toml").exists(), "{path}");
}

/// The receiver of webhooks that the API guide shows. It ends with this value.
struct PythonReceiver {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Drop for PythonReceiver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl PythonReceiver {
    /// Starts it on a port of its own, and returns its URL.
    fn start(secret: &str) -> (Self, String) {
        let guide = read("docs/api.md");
        let mut blocks = guide.split("```python\n").skip(1).filter_map(|rest| rest.split("```").next());
        let block = blocks.find(|block| block.contains("class Receiver")).unwrap();
        let serving = "HTTPServer((\"127.0.0.1\", 9001), Receiver).serve_forever()\n";
        let code = block.strip_suffix(serving).expect("it ends with the server");
        let serving =
            "server = HTTPServer((\"127.0.0.1\", 0), Receiver)\nprint(server.server_port, flush=True)";
        let program = format!("{code}{serving}\nserver.serve_forever()\n");
        let mut python = Command::new(repository("target/peers/bin/python"));
        python.args(["-c", &program]).env("WHSEC", secret).stdout(Stdio::piped());
        let mut process = python.spawn().expect("the test peers are there: scripts/test-peers");
        let lines = BufReader::new(process.stdout.take().unwrap());
        let mut receiver = Self { process, lines };
        let mut port = String::new();
        receiver.lines.read_line(&mut port).unwrap();
        (receiver, format!("http://127.0.0.1:{}/", port.trim()))
    }

    /// Stops it, and returns the lines that it has printed, in alphabetical order.
    fn said(&mut self) -> Vec<String> {
        self.process.kill().unwrap();
        let mut lines: Vec<String> = self.lines.by_ref().lines().map(Result::unwrap).collect();
        lines.sort();
        lines
    }
}

/// The receiver goes by the real time, so this story does too.
#[tokio::test(flavor = "multi_thread")]
async fn the_guide_s_receiver_takes_deliveries_of_every_kind() {
    let app = App::start_at(Backend::Sqlite, &[], service::Clock::system().now()).await;
    let key = app.api_key(&app.register("ann@example.com").await).await;
    let post = async |path: &str, body: &Value| {
        let reply = key.call(&app, Method::POST, path, body).await;
        assert!(reply.status.is_success(), "{}", reply.text);
        reply.text
    };
    let events = ["analysis.completed", "rule.triggered", "review.opened"];
    let endpoint = json!({"url": "http://127.0.0.1:9/", "events": events});
    let made: Value = serde_json::from_str(&post("/v1/webhooks", &endpoint).await).unwrap();
    let (mut receiver, url) = PythonReceiver::start(made["secret"].as_str().unwrap());
    let id = made["endpoint"]["id"].as_str().unwrap();
    let moved = key.call(&app, Method::PATCH, &format!("/v1/webhooks/{id}"), &json!({"url": url})).await;
    assert_eq!(moved.status, 200, "{}", moved.text);
    let rule =
        json!({"when": "is_scammer >= 0", "action_type": "webhook", "action_config": {"endpoint_id": id}});
    post("/v1/rules", &rule).await;

    post(&format!("/v1/webhooks/{id}/test"), &Value::Null).await;
    send_event(&app, &key, "seller_7", "signup").await;
    app.advance(Duration::from_secs(3));
    app.settle().await;
    post("/v1/reviews", &json!({"object_id": "seller_7", "queue": "q"})).await;
    app.settle().await;
    let said = receiver.said();
    let kinds: Vec<&str> =
        said.iter().filter_map(|line| line.rsplit_once(' ')).map(|(kind, _)| kind).collect();
    let expected =
        ["analysis.completed seller_7", "endpoint.test -", "review.opened -", "rule.triggered seller_7"];
    assert_eq!(kinds, expected, "{said:?}");
    app.tear_down().await;
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

/// The words in backticks, in order.
fn words_in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What the guide says of a label of a metric: the names, after that of the label.
fn values_of_label(metric: &str) -> BTreeSet<String> {
    let guide = read("docs/operations.md");
    let row = guide.lines().find(|line| line.starts_with(&format!("| `{metric}` |"))).unwrap();
    let labels = row.split(" | ").nth(1).unwrap();
    words_in_backticks(labels).skip(1).map(str::to_owned).collect()
}

/// The loops that are supervised, as the code names them.
fn loops() -> BTreeSet<String> {
    let mut source = String::new();
    for room in ["service", "server"] {
        append_sources(&repository(&format!("crates/{room}/src")), &mut source);
    }
    let named = source.split("supervise").filter_map(|rest| {
        let arguments = rest.trim_start_matches("_writer").trim_start_matches('!').strip_prefix('(')?;
        arguments.trim_start().strip_prefix('"')?.split('"').next()
    });
    // One that a test of the supervision itself starts.
    let loops: BTreeSet<String> = named.filter(|name| *name != "test").map(str::to_owned).collect();
    assert!(loops.len() > 10, "{loops:?}");
    loops
}

#[test]
fn every_loop_is_in_the_guide_and_in_the_table_of_workers() {
    assert_eq!(values_of_label("auspex_worker_panics_total"), loops());
    let architecture = read("docs/architecture.md");
    let (_, table) = architecture.split_once("| worker | where | woken by |\n").unwrap();
    let rows = table.lines().skip(1).map_while(|line| line.strip_prefix("| "));
    let workers = rows.flat_map(|row| row.split(" | ").next().unwrap().split(", "));
    let workers: BTreeSet<String> =
        workers.map(|worker| worker.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(workers, loops());
}

#[test]
fn every_scope_of_a_rate_limit_is_in_the_guide() {
    const BUDGETS: [&str; 3] = ["tenant", "ingest", "address"];
    // Whoever exceeds these is not told so: no mail is sent; a code that was used is like one that never was; a lockout has its
    // line in the audit log already.
    const SILENT: [&str; 3] = ["reset_links", "machine_login", "lockout_lines"];
    let throttle = read("crates/service/src/runtime/throttle.rs");
    let scopes = throttle.split("scope: \"").skip(1).filter_map(|rest| rest.split('"').next());
    let counted = scopes.filter(|scope| !SILENT.contains(scope)).chain(BUDGETS).map(str::to_owned);
    assert_eq!(values_of_label("auspex_rate_limited_total"), counted.collect::<BTreeSet<_>>());
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
    let files = [
        "compose.yaml",
        "compose.cluster.yaml",
        "kubernetes/settings.yaml",
        "kubernetes/api.yaml",
        "kubernetes/worker.yaml",
        "Dockerfile",
        "auspex.service",
        "README.md",
    ];
    for file in files {
        let text = read(&format!("deploy/{file}"));
        let words = text.split(|character: char| !character.is_ascii_uppercase() && character != '_');
        for name in words.filter_map(|word| word.strip_prefix("AUSPEX_")) {
            let name = name.to_lowercase();
            assert!(known.iter().any(|setting| setting.name == name), "{file}: {name}");
        }
    }
}
