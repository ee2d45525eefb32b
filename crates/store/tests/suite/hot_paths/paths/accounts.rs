//! Hot paths of signing in, and of limits on requests.

use model::Provider;
use store::Conn;
use store::accounts::passkeys::Challenge;
use store::accounts::{identities, keys, passkeys, sessions, users};
use store::runtime::rate::{Budget, Window};
use store::runtime::throttle::Attempt;
use store::runtime::{nodes, rate, throttle};
use uuid::Uuid;

use super::super::capture::Capture;
use super::super::fixtures::{KEY, MINUTE, NOW, TENANT, USER};

/// What every request does.
pub(crate) async fn keys_of_requests(capture: &mut Capture<'_>) {
    capture
        .write("authentication by a key", async |conn: &mut Conn| {
            assert!(keys::by_public_id(conn, "ak_1").await?.is_some());
            assert!(keys::by_legacy_hash(conn, &[1; 32]).await?.is_some());
            assert!(keys::by_bearer_hash(conn, &[3; 32]).await?.is_some());
            keys::touch(conn, TENANT, KEY, NOW, false).await
        })
        .await;
}

pub(crate) async fn authentication(capture: &mut Capture<'_>) {
    keys_of_requests(capture).await;
    capture
        .write("authentication", async |conn: &mut Conn| {
            assert!(sessions::find(conn, &[2; 32], NOW).await?.is_some());
            sessions::touch(conn, &[2; 32], NOW, "127.0.0.1", None).await?;
            assert!(users::by_email(conn, "ann@example.com").await?.is_some());
            assert!(users::find(conn, TENANT, USER).await?.is_some());
            assert!(identities::find(conn, Provider::Google, "subject").await?.is_some());
            let challenge = Challenge { user_id: None, user_handle: None, state: "{}".to_owned() };
            passkeys::insert_challenge(conn, &[4; 32], &challenge, NOW + MINUTE).await?;
            assert!(passkeys::take_challenge(conn, &[4; 32], NOW).await?.is_some());
            let found = passkeys::by_credential(conn, "credential").await?;
            let Some(passkey) = found else { panic!("it was added") };
            assert!(passkeys::set_used(conn, &passkey, "{}", NOW).await?);
            assert_eq!(passkeys::of_user(conn, TENANT, USER).await?.len(), 1);
            Ok(())
        })
        .await;
    capture
        .write("rate limits and throttles", async |conn: &mut Conn| {
            for budget in [Budget::Requests, Budget::Bytes] {
                rate::lease(conn, budget, TENANT, Window { start: NOW, ahead: MINUTE }, 10, 100).await?;
            }
            rate::drop_old(conn, TENANT, NOW).await?;
            let attempt = Attempt {
                scope: "sign-in",
                subject: "ann",
                now: NOW,
                limit: 1,
                window_cutoff: NOW - MINUTE,
                block_until: NOW + MINUTE,
            };
            assert_eq!(throttle::attempt(conn, attempt).await?, None);
            assert!(throttle::attempt(conn, attempt).await?.is_some());
            assert_eq!(throttle::blocked(conn, "sign-in", &["ann".to_owned()], NOW).await?, ["ann"]);
            throttle::forgive(conn, "sign-in", "ann").await?;
            throttle::clear(conn, "sign-in", "ann").await?;
            throttle::sweep(conn, NOW, 10).await?;
            nodes::beat(conn, Uuid::nil(), NOW).await
        })
        .await;
}
