//! Challenges of passkeys: no more of them wait than there is room for.

use std::time::Duration;

use model::{Timestamp, UserId};
use store::accounts::passkeys::{self, Challenge};
use store::{Conn, Result};
use testkit::{TestDatabase, on_both};
use uuid::Uuid;

on_both!(the_oldest_challenges_make_room_and_registrations_stay);

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

async fn the_oldest_challenges_make_room_and_registrations_stay(database: &TestDatabase) {
    let store = database.open().await;
    let done: Result<()> = store
        .write("challenges", async |conn: &mut Conn| {
            let user = UserId(Uuid::from_u128(1));
            let registration = Challenge {
                user_id: Some(user),
                user_handle: Some(Uuid::from_u128(2)),
                state: "{}".to_owned(),
            };
            passkeys::insert_challenge(conn, &[0; 32], &registration, NOW).await?;
            let sign_in = Challenge { user_id: None, user_handle: None, state: "{}".to_owned() };
            for number in 1..=200_u8 {
                passkeys::make_room(conn, 20).await?;
                let expires_at = NOW + Duration::from_secs(number.into());
                passkeys::insert_challenge(conn, &[number; 32], &sign_in, expires_at).await?;
                assert!(waiting(conn).await?.len() <= 21, "twenty, and the registration");
            }
            let left: Vec<u8> = waiting(conn).await?.iter().map(|(hash,)| hash[0]).collect();
            assert_eq!((left[0], left.last()), (0, Some(&200)));
            assert!(left[1..].windows(2).all(|pair| pair[0] + 1 == pair[1]), "the newest stay: {left:?}");
            assert!(left.len() > 15, "{left:?}");
            assert_eq!(passkeys::take_challenge(conn, &[0; 32], NOW).await?, None, "it has expired");
            let taken = passkeys::take_challenge(conn, &[200; 32], NOW).await?;
            assert_eq!(taken, Some(sign_in));
            assert_eq!(passkeys::take_challenge(conn, &[200; 32], NOW).await?, None, "it was used");
            assert_eq!(passkeys::delete_challenges_of(conn, user).await?, 1);
            Ok(())
        })
        .await;
    done.unwrap();
    store.close().await;
}

async fn waiting(conn: &mut Conn) -> Result<Vec<(Vec<u8>,)>> {
    fetch_all!(conn, "SELECT challenge_hash FROM passkey_challenges ORDER BY challenge_hash")
}
