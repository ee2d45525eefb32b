//! scratch
extern crate auspex_store as store;
use store::*;
fn send<T: Send>(_: T) {}
fn a(url: String) {
    send(async move { Database::connect(&url).await.map(drop) });
}
fn b(url: String) {
    send(async move { Store::open(&url).await.map(drop) });
}
fn c(s: Store, n: String) {
    send(async move { s.remember(&n, "x").await.map(drop) });
}
fn d(s: Store) {
    send(async move { s.pending().await.map(drop) });
}
fn e(s: Store) {
    send(async move { s.ping().await.map(drop) });
}
