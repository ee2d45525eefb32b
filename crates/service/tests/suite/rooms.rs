//! The rooms of the service: dependencies run one way, and there is no cycle between files.

use std::path::Path;

use testkit::ModuleGraph;

/// From the module that may import every other one to the room that may import none.
const ORDER: [&str; 13] = [
    "service", "wiring", "options", "upkeep", "exports", "accounts", "analysis", "actions", "quality",
    "objects", "billing", "outbox", "runtime",
];

#[test]
fn dependencies_between_rooms_run_one_way() {
    let graph = ModuleGraph::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert_eq!(graph.against(&ORDER), Vec::<String>::new());
    assert_eq!(graph.circle(), None);
}
