//! No crate has files that import each other in a circle.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use auspex_testkit::ModuleGraph;

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

macro_rules! without_circles {
    ($($name:ident: $folder:literal),* $(,)?) => {
        const CHECKED: &[&str] = &[$($folder),*];

        $(
            #[test]
            fn $name() {
                assert_eq!(ModuleGraph::read(&root().join($folder).join("src")).circle(), None);
            }
        )*
    };
}

without_circles! {
    analyzer: "crates/analyzer",
    bench: "bench",
    cli: "crates/cli",
    client: "crates/client",
    decider: "crates/decider",
    faults: "crates/faults",
    fuzz: "fuzz",
    model: "crates/model",
    server: "crates/server",
    service: "crates/service",
    sqlx_facade: "crates/sqlx",
    store: "crates/store",
    testkit_itself: "crates/testkit",
}

#[test]
fn no_crate_is_forgotten() {
    let crates = std::fs::read_dir(root().join("crates")).unwrap();
    let names = crates.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let all = names.map(|name| format!("crates/{name}")).chain(["bench".to_owned(), "fuzz".to_owned()]);
    assert_eq!(all.collect::<BTreeSet<_>>(), CHECKED.iter().map(|folder| (*folder).to_owned()).collect());
}
