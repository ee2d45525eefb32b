//! The rooms of the service: arrows between them run one way, and no file is part of a circle.

use std::path::Path;

use testkit::ModuleGraph;

/// From the room that may import every other one to the room that may import none.
const ORDER: [&str; 8] =
    ["upkeep", "accounts", "analysis", "actions", "objects", "billing", "outbox", "runtime"];

#[test]
fn arrows_between_rooms_run_one_way() {
    let graph = ModuleGraph::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert_eq!(graph.against(&ORDER), Vec::<String>::new());
    assert_eq!(graph.circle(), None);
}
