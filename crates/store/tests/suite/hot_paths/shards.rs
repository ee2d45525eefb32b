//! Statements for a database that is divided into shards by tenant: what a worker waits for goes to one shard, what goes to all of
//! them is named here with its reason, and `deploy/citus.sql` divides every table.

use std::collections::{BTreeMap, BTreeSet};

use store::Database;
use testkit::{Backend, TestDatabase, run_on};

use super::hot_paths;
use crate::catalogue;
use crate::migrated;

/// What divides a migrated database.
const DIVISION: &str = include_str!("../../../../../deploy/citus.sql");

/// Paths with statements that go to every shard, and why.
const EVERY_SHARD: [(&str, &str); 10] = [
    ("bulk runs", "those under way are picked up, whoever's they are"),
    ("claim deliveries", "who is next, and the tenant of an endpoint"),
    ("claim jobs", "who is next, and the gauges"),
    ("ledger and usage", "a payment names its checkout, and the checkout its line of the ledger"),
    ("outbox", "who is next, and the gauges"),
    ("release deliveries", "the tenant of an endpoint"),
    ("retry and set aside jobs", "tenants with unpaid work"),
    ("settle deliveries", "the tenant of an endpoint"),
    ("sweep", "what has expired, whoever's it is"),
    ("what is due", "who is next"),
];

/// The names that stand in quotes, in their order.
fn quoted(text: &str) -> Vec<&str> {
    text.split('\'').skip(1).step_by(2).collect()
}

/// How `deploy/citus.sql` divides: the tables that every node has, those in shards, and those of the coordinator alone.
fn divided() -> [Vec<&'static str>; 3] {
    let mut lists = DIVISION.split("ARRAY ARRAY[").skip(1).map(|rest| rest.split(']').next().unwrap());
    let (whole, in_shards) = (lists.next().unwrap(), lists.next().unwrap());
    assert_eq!(lists.next(), None, "two lists");
    let (_, local) = DIVISION.split_once("-- tables:\n").unwrap();
    [quoted(whole), quoted(in_shards), quoted(local.lines().next().unwrap())]
}

#[test]
fn every_table_is_divided_in_one_way() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let [whole, in_shards, local] = divided();
        let all = [whole.as_slice(), &in_shards, &local].concat();
        let named: BTreeSet<String> = all.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(named.len(), all.len(), "each is named once");
        let database = migrated(database).await;
        assert_eq!(named, catalogue::tables(&database).await);

        let of_nobody: BTreeSet<&str> = local.iter().copied().collect();
        assert_eq!(of_nobody, catalogue::deployment_wide());
        // The accounts themselves are referred to by the directories, which a table in shards cannot be.
        let expected: BTreeSet<&str> = catalogue::directories().into_iter().chain(["tenants"]).collect();
        assert_eq!(whole.iter().copied().collect::<BTreeSet<&str>>(), expected);

        let Database::Postgres(pool) = &database else { panic!("not PostgreSQL") };
        let references: Vec<(String, String)> = sqlx::query_as(
            "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint
             WHERE contype = 'f' AND connamespace = 'public'::regnamespace AND conrelid <> confrelid",
        )
        .fetch_all(pool)
        .await
        .unwrap();
        assert!(!references.is_empty());
        let position = |list: &[&str], name: &str| list.iter().position(|other| *other == name);
        for (from, to) in &references {
            let to_whole = position(&whole, to);
            assert!(to_whole.is_some(), "{from} refers to {to}, which not every node has");
            assert!(position(&local, from).is_none(), "{from} is not on every node, but {to} is");
            let is_before = position(&whole, from).is_none_or(|from| to_whole < Some(from));
            assert!(is_before, "{to} comes before {from}");
        }
    });
}

/// Whether a statement names the tenant whose rows it reads or changes, or only inserts rows. One that locks rows and changes them
/// names the tenant for each.
fn goes_to_one_shard(text: &str) -> bool {
    let named = text.matches("tenant_id = $").count() + text.matches("tenant_id = '").count();
    let is_claim = text.contains("FOR UPDATE") && (text.contains(" SET ") || text.contains("DELETE FROM"));
    let names_the_tenant = named > usize::from(is_claim);
    let is_given_one = text.contains(" AS NOT MATERIALIZED (SELECT ") && text.contains("::uuid");
    text.starts_with("INSERT INTO ") || names_the_tenant || is_given_one
}

/// On a database in shards nothing that many wait for goes from tenant to tenant. Any PostgreSQL runs these statements, so this test
/// does; what the shards themselves make of them is in docs/scale.md.
#[test]
fn hot_paths_go_to_one_shard() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let [_, in_shards, _] = divided();
        let paths = hot_paths(database.open().await.as_sharded()).await;
        let mut to_every_shard: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for path in &paths {
            for statement in &path.statements {
                let text = statement.text.trim_start();
                let words: BTreeSet<&str> =
                    text.split(|letter: char| letter != '_' && !letter.is_alphanumeric()).collect();
                if !in_shards.iter().any(|table| words.contains(table)) || goes_to_one_shard(text) {
                    continue;
                }
                to_every_shard
                    .entry(path.name)
                    .or_default()
                    .insert(text.split_whitespace().collect::<Vec<_>>().join(" "));
                assert!(!text.contains("FOR UPDATE"), "{}: locks rows of every shard\n{text}", path.name);
            }
        }
        let known: BTreeSet<&str> = EVERY_SHARD.iter().map(|(path, _)| *path).collect();
        assert_eq!(to_every_shard.keys().copied().collect::<BTreeSet<&str>>(), known, "{to_every_shard:#?}");
    });
}
