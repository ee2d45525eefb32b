//! Passwords: required strength, and hashing with Argon2id.

use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use tokio::sync::Semaphore;

use crate::runtime::{Error, Kind, Random, Result};

const MIN_CHARACTERS: usize = 8;
const MAX_CHARACTERS: usize = 256;
/// The minimum strength: between 10⁶ and 10⁸ guesses.
const MIN_STRENGTH: zxcvbn::Score = zxcvbn::Score::Two;
/// More characters do not make a password weaker, and the time of an estimate grows with the square of the length.
const ESTIMATED_CHARACTERS: usize = 64;

/// Hashes and verifies passwords, at most one per core at a time: each takes 19 MiB and tens of milliseconds.
#[derive(Clone)]
pub(crate) struct Passwords {
    slots: Arc<Semaphore>,
    random: Random,
    /// The hash of a dummy password, verified if there is no such user, so that a wrong email takes as long as a wrong password.
    dummy_hash: Arc<str>,
}

impl Passwords {
    pub(crate) fn new(random: Random) -> Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let dummy_hash = hash(&random, "dummy password")?.into();
        Ok(Self { slots: Arc::new(Semaphore::new(cores)), random, dummy_hash })
    }

    /// Refuses a password that is too short, too long, or too easy to guess for someone who knows the facts in `about`.
    pub(crate) fn require_strength(password: &str, about: &[&str]) -> Result<()> {
        let characters = password.chars().count();
        if !(MIN_CHARACTERS..=MAX_CHARACTERS).contains(&characters) {
            return Err(Error::new(
                Kind::WeakPassword,
                format!("password: it must have {MIN_CHARACTERS} to {MAX_CHARACTERS} characters"),
            ));
        }
        let start: String = password.chars().take(ESTIMATED_CHARACTERS).collect();
        let estimate = zxcvbn::zxcvbn(&start, about);
        if estimate.score() >= MIN_STRENGTH {
            return Ok(());
        }
        let hint = estimate.feedback().and_then(zxcvbn::feedback::Feedback::warning);
        let hint = hint.map_or_else(String::new, |warning| format!(" {warning}"));
        Err(Error::new(Kind::WeakPassword, format!("password: it is too easy to guess.{hint}")))
    }

    /// The hash to be stored.
    pub(crate) async fn hash(&self, password: &str) -> Result<String> {
        let (random, password) = (self.random.clone(), password.to_owned());
        self.run(move || hash(&random, &password)).await?
    }

    /// Whether the password matches the hash. Takes the same time if there is no hash.
    pub(crate) async fn verify(&self, password: &str, hash: Option<&str>) -> Result<bool> {
        let has_hash = hash.is_some();
        let (password, hash) = (password.to_owned(), hash.unwrap_or(&self.dummy_hash).to_owned());
        let matches = self
            .run(move || {
                let Ok(hash) = PasswordHash::new(&hash) else { return false };
                Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
            })
            .await?;
        Ok(matches && has_hash)
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let internal = |cause: Box<dyn std::error::Error + Send + Sync>| {
            Error::new(Kind::Internal, "internal error").because(cause)
        };
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|error| internal(error.into()))?;
        // The slot ends with the work, not with the caller, who may leave at any time: work that has started cannot be stopped.
        let work = move || {
            let _slot = slot;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| internal(error.into()))
    }
}

fn hash(random: &Random, password: &str) -> Result<String> {
    let salt: [u8; 16] = random.bytes();
    let hash = Argon2::default().hash_password_with_salt(password.as_bytes(), &salt);
    let hash =
        hash.map_err(|error| Error::new(Kind::Internal, "internal error").because(error.to_string()))?;
    Ok(hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_right_password_matches() {
        let passwords = Passwords::new(Random::seeded(1)).unwrap();
        let hash = passwords.hash("correct horse battery staple").await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(passwords.verify("correct horse battery staple", Some(&hash)).await.unwrap());
        assert!(!passwords.verify("correct horse battery stable", Some(&hash)).await.unwrap());
        assert!(
            !passwords.verify("dummy password", None).await.unwrap(),
            "the dummy password is never accepted"
        );
        assert_ne!(hash, passwords.hash("correct horse battery staple").await.unwrap(), "salted");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_hash_keeps_its_slot_when_its_caller_leaves() {
        let passwords = Passwords::new(Random::seeded(1)).unwrap();
        let slots = passwords.slots.available_permits();
        let (started, is_started) = tokio::sync::oneshot::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let work = passwords.run(move || {
            let _ = started.send(());
            let _ = ended.recv();
        });
        tokio::select! {
            _ = work => unreachable!("it has not ended"),
            begun = is_started => begun.unwrap(),
        }
        // The caller is gone, the work is not.
        assert_eq!(passwords.slots.available_permits(), slots - 1);
        drop(end);
        let all = u32::try_from(slots).unwrap();
        let freed =
            tokio::time::timeout(std::time::Duration::from_mins(1), passwords.slots.acquire_many(all));
        assert!(freed.await.is_ok(), "the slot is free once the work has ended");
    }

    #[test]
    fn guessable_passwords_are_refused() {
        let long = "x1Y&".repeat(65);
        for password in
            ["", "1234567", "password", "password1", "qwertyuiop", "aaaaaaaaaaaa", "annexample", &long]
        {
            let refused =
                Passwords::require_strength(password, &["ann@example.com", "annexample"]).unwrap_err();
            assert_eq!(refused.kind(), Kind::WeakPassword, "{password}");
        }
        for password in ["correct horse battery staple", "Tr0ub4dor&3x", &"pässwörter sind lang ".repeat(12)]
        {
            Passwords::require_strength(password, &["ann@example.com"]).unwrap();
        }
    }
}
