//! Requests about one identity or one user that arrive at once.

use reqwest::Method;
use serde_json::Value;

use super::{LINKED, UNLINKED, count, token_of};
use crate::app::Reply;
use crate::provider_peers::{PROVIDERS, Providers};

testkit::on_both!(
    racing_removals_leave_a_way_to_sign_in,
    racing_first_sign_ins_make_one_account,
    racing_first_sign_ins_at_two_providers_make_one_account,
    racing_first_sign_ins_to_a_registered_address_all_hold,
    a_first_sign_in_racing_a_link_ends_with_one_owner,
);

/// How often a race is run: once may go well by luck.
const ROUNDS: u32 = 5;

async fn racing_removals_leave_a_way_to_sign_in(stage: &Providers) {
    for round in 0..ROUNDS {
        let email = format!("ann-{round}@example.com");
        for provider in PROVIDERS {
            stage.person(provider, round, &email, true).await;
        }
        stage.token("google", round, 201).await;
        let token = stage.token("github", round, 200).await;
        let (one, other) = tokio::join!(stage.unlink(&token, "google"), stage.unlink(&token, "github"));
        assert_eq!(statuses(&[one, other]), [204, 409]);
        assert_eq!(stage.ways_in(&token).await.1.len(), 1);
        assert_eq!(count(&stage.app.subjects_to(&email).await, UNLINKED), 1);
    }
}

async fn racing_first_sign_ins_make_one_account(stage: &Providers) {
    for provider in PROVIDERS {
        for round in 0..ROUNDS {
            stage.person(provider, round, &format!("ann-{provider}-{round}@example.com"), true).await;
            let replies = sign_in_at_once(stage, [(provider, round); 3]).await;
            assert_eq!(statuses(&replies), [200, 200, 201]);
            for reply in &replies {
                assert_eq!(stage.ways_in(&token_of(reply)).await, (false, vec![provider.to_owned()]));
            }
        }
    }
    assert_eq!(stage.accounts().await, PROVIDERS.len() * usize::try_from(ROUNDS).unwrap());
}

async fn racing_first_sign_ins_at_two_providers_make_one_account(stage: &Providers) {
    for round in 0..ROUNDS {
        let email = format!("ann-{round}@example.com");
        for provider in PROVIDERS {
            stage.person(provider, round, &email, true).await;
        }
        let replies = sign_in_at_once(stage, [("google", round), ("github", round), ("google", round)]).await;
        assert_eq!(statuses(&replies), [200, 200, 201]);
        // A sign-in that links ends the sessions from before it; whoever came last has one.
        let mut open = 0;
        for reply in &replies {
            let token = token_of(reply);
            if stage.app.call(&token, Method::GET, "/v1/me", &Value::Null).await.status == 200 {
                assert_eq!(stage.ways_in(&token).await.1.len(), 2);
                open += 1;
            }
        }
        assert!(open >= 1);
        assert_eq!(
            count(&stage.app.subjects_to(&email).await, LINKED),
            1,
            "to the account that the other made"
        );
    }
    assert_eq!(stage.accounts().await, usize::try_from(ROUNDS).unwrap());
}

async fn racing_first_sign_ins_to_a_registered_address_all_hold(stage: &Providers) {
    for provider in PROVIDERS {
        for round in 0..ROUNDS {
            let email = format!("ann-{provider}-{round}@example.com");
            let squatter = stage.app.register(&email).await;
            stage.person(provider, round, &email, true).await;
            let replies = sign_in_at_once(stage, [(provider, round); 3]).await;
            assert_eq!(statuses(&replies), [200, 200, 200]);
            for reply in &replies {
                assert_eq!(stage.ways_in(&token_of(reply)).await, (false, vec![provider.to_owned()]));
            }
            let refused = stage.app.call(&squatter, Method::GET, "/v1/me", &Value::Null).await;
            refused.refused(401, "unauthorized");
            assert_eq!(count(&stage.app.subjects_to(&email).await, LINKED), 1);
        }
    }
    assert_eq!(stage.accounts().await, PROVIDERS.len() * usize::try_from(ROUNDS).unwrap());
}

async fn a_first_sign_in_racing_a_link_ends_with_one_owner(stage: &Providers) {
    for provider in PROVIDERS {
        for round in 0..ROUNDS {
            stage.person(provider, round, &format!("ann-{provider}-{round}@example.com"), true).await;
            let bob = stage.app.register(&format!("bob-{provider}-{round}@example.com")).await;
            let (signed_in, linked) =
                tokio::join!(stage.sign_in(provider, round), stage.link(&bob, provider, round));
            let me = stage.get(&token_of(&signed_in), "/v1/me").await;
            let bob = stage.get(&bob, "/v1/me").await;
            match (signed_in.status.as_u16(), linked.status.as_u16()) {
                (200, 201) => assert_eq!(me, bob),
                (201, 409) => assert_ne!(me["tenant_id"], bob["tenant_id"]),
                other => panic!("{other:?} {} {}", signed_in.text, linked.text),
            }
        }
    }
}

/// These people, who have all agreed at their provider, come back at once.
async fn sign_in_at_once(stage: &Providers, people: [(&str, u32); 3]) -> [Reply; 3] {
    let mut proofs = Vec::new();
    for (provider, person) in people {
        proofs.push((format!("/auth/console/oauth/{provider}"), stage.proof(provider, person).await));
    }
    let [first, second, third] =
        [0, 1, 2].map(|index: usize| stage.app.post(&proofs[index].0, &proofs[index].1));
    tokio::join!(first, second, third).into()
}

fn statuses(replies: &[Reply]) -> Vec<u16> {
    let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status.as_u16()).collect();
    statuses.sort_unstable();
    statuses
}
