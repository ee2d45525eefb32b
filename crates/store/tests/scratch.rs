//! scratch
extern crate auspex_store as store;
use store::*;
macro_rules! execute {
    ($conn:expr, $sql:expr $(, $value:expr)* $(,)?) => {
        match $conn {
            store::Conn::Sqlite(held) => {
                sqlx::query($sql)$(.bind($value))*.execute(held.native()).await.map(|done| done.rows_affected())
            }
            store::Conn::Postgres(held) => {
                sqlx::query($sql)$(.bind($value))*.execute(held.native()).await.map(|done| done.rows_affected())
            }
        }
        .map_err(store::Error::from)
    };
}
fn send<T: Send>(_: T) {}
async fn owned(s: &Store, name: &str) -> Result<()> {
    let name = name.to_owned();
    s.write("x", async move |conn: &mut Conn| { execute!(conn, "A $1", &name)?; execute!(conn, "B $1", name.as_str())?; Ok(()) }).await
}
async fn copied(s: &Store, name: &str) -> Result<()> {
    s.write("x", async move |conn: &mut Conn| { execute!(conn, "A $1", name)?; Ok(()) }).await
}
async fn vector(s: &Store, names: Vec<String>) -> Result<()> {
    s.write("x", async |conn: &mut Conn| { for name in &names { execute!(conn, "A $1", name)?; } Ok(()) }).await
}
async fn vector_moved(s: &Store, names: Vec<String>) -> Result<()> {
    s.write("x", async move |conn: &mut Conn| { for name in &names { execute!(conn, "A $1", name)?; } Ok(()) }).await
}
async fn inner(conn: &mut Conn, name: &str) -> Result<()> { execute!(conn, "A $1", name).map(drop) }
async fn helper(s: &Store, name: String) -> Result<()> {
    s.write("x", async move |conn: &mut Conn| { inner(conn, &name).await }).await
}
async fn reading(s: &Store, name: &str) -> Result<()> {
    s.read("x", async move |conn: &mut Conn| { execute!(conn, "A $1", name)?; Ok(()) }).await
}
async fn reading_owned(s: &Store, name: &str) -> Result<()> {
    let name = name.to_owned();
    s.read("x", async move |conn: &mut Conn| { execute!(conn, "A $1", name)?; Ok(()) }).await
}
fn t1(s: Store, n: String) { send(async move { owned(&s, &n).await }); }
fn t2(s: Store, n: String) { send(async move { copied(&s, &n).await }); }
fn t3(s: Store, n: Vec<String>) { send(async move { vector(&s, n).await }); }
fn t4(s: Store, n: Vec<String>) { send(async move { vector_moved(&s, n).await }); }
fn t5(s: Store, n: String) { send(async move { helper(&s, n).await }); }
fn t6(s: Store, n: String) { send(async move { reading(&s, &n).await }); }
fn t7(s: Store, n: String) { send(async move { reading_owned(&s, &n).await }); }
